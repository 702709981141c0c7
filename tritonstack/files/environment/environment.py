"""`environments/<env>.yaml`: account, region, Triton release, and endpoints of one environment."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base import naming
from tritonstack.base.embedded_accounts import is_embedded
from tritonstack.base.error_kinds import PromotionRejectedError, UnusableNameError
from tritonstack.base.naming import Name
from tritonstack.base.yaml import Record, check_distinct, matching, raise_violations, suggest
from tritonstack.facts.bootstrap import CDK_QUALIFIER, Bootstrap, Qualifier
from tritonstack.facts.hardware import InstanceType
from tritonstack.facts.images import FIRST_RELEASES, has_image, region_violation
from tritonstack.facts.region_features import ConfirmedFeatures
from tritonstack.facts.releases import RELEASES, TritonRelease
from tritonstack.facts.targets import acceptable_targets
from tritonstack.files.endpoint.endpoint import EndpointSpec, InstanceTypeName
from tritonstack.files.endpoint.variants import CHALLENGER
from tritonstack.files.environment.builds import BuildOptions
from tritonstack.files.environment.network import NetworkSpec
from tritonstack.files.environment.promotion import PromotionSpec
from tritonstack.files.environment.tags import Tags


def _check_region(text: str) -> str:
    if violation := region_violation(text):
        raise ValueError("; ".join(violation))
    return text


def _check_release(text: str) -> str:
    if text not in RELEASES:
        raise ValueError(f"SageMaker has no image of Triton {text!r}; choose one of {', '.join(RELEASES)}")
    return text


AccountId = Annotated[str, matching(r"[0-9]{12}", "invalid AWS account {}; write its 12 digits in quotes")]
RegionName = Annotated[str, AfterValidator(_check_region)]
PolicyName = Annotated[
    str,
    matching(r"(?!arn:)[\w+=,.@/-]{1,128}", "invalid policy name {}; write the name without arn:…:policy/"),
]
KeyArn = Annotated[
    str,
    matching(
        r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]{1,128}",
        "invalid KMS key ARN {}; write the key's ARN, not an alias: "
        "arn:aws:kms:eu-west-1:111111111111:key/0a1b2c3d-...",
    ),
]
Email = Annotated[
    str, matching(r"[^@\s]+@[^@\s]+\.[^@\s]+", "invalid e-mail address {}; write name@example.com")
]
NamePrefix = Annotated[
    Name,
    matching(
        r"(?!aws|ssm).*",
        "names starting with aws or ssm are reserved by Systems Manager, got {}; choose another name_prefix",
    ),
]


class EnvironmentSpec(Record):
    """An environment file."""

    name: Name
    """The environment's name; also the name of its file."""
    account: AccountId
    """The AWS account to deploy to."""
    region: RegionName
    """The AWS region to deploy to."""
    triton_release: Annotated[str, AfterValidator(_check_release)]
    """Release of the SageMaker Triton image."""
    region_features: ConfirmedFeatures = ()
    """Features that the region has although AWS's published lists omit them."""
    name_prefix: NamePrefix = "tritonstack"
    """Name prefix of all its resources."""
    removal: Literal["retain", "destroy"] = "retain"
    """Whether to keep buckets, keys, images, and logs when their stack is destroyed."""
    keep_locks: Annotated[int, Field(ge=2)] = 10
    """Number of lock versions available for rollback: their artifacts stay in the artifact bucket."""
    alarm_emails: Annotated[tuple[Email, ...], AfterValidator(check_distinct)] = ()
    """E-mail addresses for alarms."""
    protected: bool | None = None
    """Whether destroying it requires lifting this protection first; default: if data is retained."""
    promotion: PromotionSpec | None = None
    """Where its artifacts come from, and the promotion gates."""
    tags: Tags = Field(default_factory=dict)
    """Tags of all resources."""
    permissions_boundary: PolicyName | None = None
    """Name of the IAM policy that bounds all roles; by default, the foundation creates one."""
    bootstrap_qualifier: Qualifier = CDK_QUALIFIER
    """Qualifier of `cdk bootstrap`; the environment uses only assets published under it."""
    bootstrap_kms_key: KeyArn | None = None
    """ARN of the key passed to `cdk bootstrap --bootstrap-kms-key-id`; builds may decrypt with it."""
    network: NetworkSpec | None = None
    """Network of the endpoints; SageMaker's own if not given."""
    prices: Mapping[InstanceTypeName, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """Hourly price per instance type, for costs on dashboards."""
    builds: BuildOptions = BuildOptions()
    """Where and how to build models."""
    endpoints: Mapping[Name, EndpointSpec]
    """Endpoints by name."""

    @property
    def base(self) -> str:
        """Name prefix of everything in this environment."""
        return naming.environment_prefix(prefix=self.name_prefix, environment=self.name)

    @property
    def delivery_base(self) -> str:
        """Name prefix of its delivery roles."""
        return naming.delivery_prefix(prefix=self.name_prefix, environment=self.name)

    @property
    def marks(self) -> Mapping[str, str]:
        """Tags that identify its resources."""
        tags = {"project": self.name_prefix, "environment": self.name}
        return {key: self.tags.get(key, value) for key, value in tags.items()}

    @property
    def release(self) -> TritonRelease:
        """Contents of its Triton image."""
        return RELEASES[self.triton_release]

    @property
    def bootstrap(self) -> Bootstrap:
        """The CDK bootstrap it is deployed with."""
        return Bootstrap(self.bootstrap_qualifier, self.account, self.region, self.bootstrap_kms_key)

    @property
    def artifact_bucket(self) -> str:
        """The bucket of its artifacts."""
        return naming.artifact_bucket_name(self.base, account=self.account, region=self.region)

    @property
    def log_bucket(self) -> str:
        """The bucket of the artifact bucket's access log."""
        return naming.log_bucket_name(self.base, account=self.account, region=self.region)

    @property
    def data_bucket(self) -> str:
        """The bucket of captured requests and of asynchronous endpoints' responses."""
        return naming.data_bucket_name(self.base, account=self.account, region=self.region)

    @property
    def roles_boundary(self) -> str:
        """Name of the permissions boundary of all roles: from the file, or the foundation's."""
        return self.permissions_boundary or naming.boundary_name(self.base)

    @property
    def alarm_topic_arn(self) -> str:
        """The SNS topic of its alarms."""
        return f"arn:aws:sns:{self.region}:{self.account}:{naming.alarm_topic_name(self.base)}"

    @property
    def is_protected(self) -> bool:
        """Whether destroying it requires lifting its protection first."""
        return self.removal == "retain" if self.protected is None else self.protected

    @property
    def on_aws(self) -> bool:
        """False if its account is reserved for the local cloud, which has no registry for custom images."""
        return not is_embedded(self.account)

    @property
    def costs_money(self) -> bool:
        """Whether its resources are billed."""
        return self.on_aws

    @property
    def real_instances(self) -> bool:
        """Whether instances of the named types answer; those of the local cloud are processes of one
        machine."""
        return self.on_aws

    @property
    def served_by_image(self) -> bool:
        """Whether SageMaker's image serves its models; on the local cloud, builds check the local server."""
        return self.on_aws

    @property
    def builds_in_account(self) -> bool:
        """Whether jobs in its account build models; in the local cloud only on request."""
        if self.builds.enabled is None:
            return self.on_aws
        return self.builds.enabled

    @property
    def python(self) -> str:
        """The Python version that serves its models on CPUs.

        The embedded server uses this machine's Python, unless builds run in containers.
        """
        if not (self.on_aws or self.builds_in_account):
            return f"{sys.version_info.major}.{sys.version_info.minor}"
        return self.release.python

    def acceptable_targets(self, instance: InstanceType) -> tuple[str, ...]:
        """Return the targets whose artifacts its endpoints can run, the most specific first."""
        return acceptable_targets(instance, self.release, None if instance.gpus else self.python)

    def endpoint_name(self, endpoint: str) -> str:
        """Return the endpoint name that callers of InvokeEndpoint use."""
        return naming.endpoint_name(self.base, endpoint)

    @model_validator(mode="after")
    def _image_exists(self) -> EnvironmentSpec:
        if not has_image(region=self.region, release=self.triton_release):
            raise ValueError(
                f"SageMaker has no image of Triton {self.triton_release} in {self.region}; "
                f"choose {FIRST_RELEASES[self.region]} or later, or another region"
            )
        return self

    @model_validator(mode="after")
    def _has_distinct_stack_names(self) -> EnvironmentSpec:
        # Stacks of an environment `dev-endpoint` would look like endpoint stacks of an environment `dev`.
        if "endpoint" in self.base.split("-"):
            raise ValueError(
                f"{self.base!r} contains 'endpoint', which separates an environment's own stacks from "
                "its endpoints' stacks; choose another name or name_prefix"
            )
        return self

    @model_validator(mode="after")
    def _alarm_names_are_distinct(self) -> EnvironmentSpec:
        # Alarms of `search`'s challenger are named like those of an endpoint `search-challenger`.
        raise_violations(
            UnusableNameError.at(
                ("endpoints", conflicting),
                f"its alarm names would equal those of {name!r}'s challenger",
                "choose another name",
            )
            for name, endpoint in self.endpoints.items()
            if getattr(endpoint, CHALLENGER, None)
            and (conflicting := f"{name}-{CHALLENGER}") in self.endpoints
        )
        return self

    @model_validator(mode="after")
    def _objectives_are_of_endpoints(self) -> EnvironmentSpec:
        raise_violations(
            PromotionRejectedError.at(("promotion", "performance", name), *problem)
            for name in (self.promotion.performance if self.promotion else ())
            if (problem := self._objective_violation(name))
        )
        return self

    def _objective_violation(self, name: str) -> tuple[str, str] | None:
        if name not in self.endpoints:
            endpoints = ", ".join(self.endpoints) or "none"
            return f"unknown endpoint {name!r}", (
                suggest(name, self.endpoints, f"endpoints of {self.name}: {endpoints}")
            )
        if self.endpoints[name].asynchronous is not None:
            return "an asynchronous endpoint queues requests, and has no latency to measure", "remove it"
        return None

    @model_validator(mode="after")
    def _names_fit(self) -> EnvironmentSpec:
        if len(self.artifact_bucket) > naming.BUCKET_NAME_LIMIT:
            raise ValueError(
                f"expected a bucket name of at most {naming.BUCKET_NAME_LIMIT} characters, got "
                f"{len(self.artifact_bucket)} in {self.artifact_bucket!r}; shorten name_prefix or name"
            )
        for endpoint, spec in self.endpoints.items():
            full, kind = self.endpoint_name(endpoint), "endpoint name"
            if spec.components:
                full, kind = naming.component_name(full), "inference component name"
            if len(full) > naming.ENDPOINT_NAME_LIMIT:
                raise ValueError(
                    f"expected an {kind} of at most {naming.ENDPOINT_NAME_LIMIT} characters, got "
                    f"{len(full)} in {full!r}; shorten name_prefix, name, or {endpoint!r}"
                )
        return self


def shared_bootstraps(specs: Iterable[EnvironmentSpec]) -> list[str]:
    """Describe environments that share the roles of one `cdk bootstrap`: whoever deploys one can deploy all.

    Accounts of the local cloud are omitted.
    """
    sharing: dict[Bootstrap, list[str]] = {}
    for spec in specs:
        if spec.on_aws:
            sharing.setdefault(spec.bootstrap, []).append(spec.name)
    return [
        f"{', '.join(names)} share the bootstrap roles of {bootstrap.description}: whoever can deploy one of "
        "them can deploy the others; to separate them, give each its own bootstrap_qualifier"
        for bootstrap, names in sharing.items()
        if len(names) > 1
    ]
