"""`environments/<env>.yaml`: one account and region, its Triton release, and its endpoints."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base import naming
from tritonstack.base.documents import Fault, Record, check_distinct, refuse
from tritonstack.base.embedded_accounts import is_embedded
from tritonstack.base.naming import Name
from tritonstack.reference.bootstrap import CDK_QUALIFIER, Bootstrap, Qualifier
from tritonstack.reference.hardware import InstanceType
from tritonstack.reference.images import FIRST_RELEASES, has_image, region_fault
from tritonstack.reference.region_features import ConfirmedFeatures
from tritonstack.reference.releases import RELEASES, TritonRelease
from tritonstack.reference.targets import acceptable_targets
from tritonstack.spec.endpoints.endpoint import EndpointSpec, InstanceTypeName
from tritonstack.spec.endpoints.variants import CHALLENGER
from tritonstack.spec.environments.builds import BuildOptions
from tritonstack.spec.environments.network import NetworkSpec
from tritonstack.spec.environments.promotion import PromotionSpec
from tritonstack.spec.environments.tags import Tags


def _check_account(text: str) -> str:
    if not re.fullmatch(r"[0-9]{12}", text):
        raise ValueError(f"{text!r} is not an AWS account; write its 12 digits in quotes")
    return text


def _check_region(text: str) -> str:
    if fault := region_fault(text):
        raise ValueError("; ".join(fault))
    return text


def _check_release(text: str) -> str:
    if text not in RELEASES:
        raise ValueError(f"SageMaker has no image of Triton {text!r}; choose one of {', '.join(RELEASES)}")
    return text


def _check_prefix(text: str) -> str:
    if text.startswith(("aws", "ssm")):
        raise ValueError(
            f"{text!r} begins with aws or ssm, and Systems Manager keeps such names of parameters; "
            "choose another name_prefix"
        )
    return text


def _check_policy_name(text: str) -> str:
    if not re.fullmatch(r"[\w+=,.@/-]{1,128}", text) or text.startswith("arn:"):
        raise ValueError(f"{text!r} is not the name of a policy; write the name without arn:…:policy/")
    return text


def _check_key_arn(text: str) -> str:
    if not re.fullmatch(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]{1,128}", text):
        raise ValueError(
            f"{text!r} is not the ARN of a KMS key; write the key's ARN, not an alias: "
            "arn:aws:kms:eu-west-1:111111111111:key/0a1b2c3d-..."
        )
    return text


def _check_email(text: str) -> str:
    if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", text):
        raise ValueError(f"{text!r} is not an e-mail address; write name@example.com")
    return text


AccountId = Annotated[str, AfterValidator(_check_account)]
RegionName = Annotated[str, AfterValidator(_check_region)]
PolicyName = Annotated[str, AfterValidator(_check_policy_name)]


class EnvironmentSpec(Record):
    """One environment, as its file describes it."""

    name: Name
    """The environment's name; the file has the same one."""
    account: AccountId
    """The AWS account it lives in."""
    region: RegionName
    """The AWS region it lives in."""
    triton_release: Annotated[str, AfterValidator(_check_release)]
    """The release of the SageMaker Triton image that its endpoints run."""
    region_features: ConfirmedFeatures = ()
    """Features that the region has, although AWS's published lists do not say so (docs/regions.md)."""
    name_prefix: Annotated[Name, AfterValidator(_check_prefix)] = "tritonstack"
    """What the names of all its resources begin with."""
    removal: Literal["retain", "destroy"] = "retain"
    """What happens to buckets, keys, images and logs when their stack is destroyed."""
    keep_locks: Annotated[int, Field(ge=2)] = 10
    """How many versions of its lock can be gone back to: what they name is kept in the artifact bucket."""
    alarm_emails: Annotated[
        tuple[Annotated[str, AfterValidator(_check_email)], ...], AfterValidator(check_distinct)
    ] = ()
    """Who hears of alarms."""
    protected: bool | None = None
    """Whether it can be destroyed only once a person has lifted this; if not given, where data is kept."""
    promotion: PromotionSpec | None = None
    """Where its artifacts come from, and what they have to have shown there."""
    tags: Tags = Field(default_factory=dict)
    """Tags on every resource."""
    permissions_boundary: PolicyName | None = None
    """Name of an IAM policy of the account that bounds every role; if not given, the foundation makes one."""
    bootstrap_qualifier: Qualifier = CDK_QUALIFIER
    """Under which `cdk bootstrap` prepares the account for it; it takes nothing published under another."""
    bootstrap_kms_key: Annotated[str, AfterValidator(_check_key_arn)] | None = None
    """ARN of the key given to `cdk bootstrap --bootstrap-kms-key-id`; builds may then decrypt with it."""
    network: NetworkSpec | None = None
    """The network that endpoints stand in; SageMaker's own if not given."""
    prices: Mapping[InstanceTypeName, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """What an hour of each instance type costs, for the cost on dashboards."""
    builds: BuildOptions = BuildOptions()
    """Where and how models are built."""
    endpoints: Mapping[Name, EndpointSpec]
    """What it serves, by name."""

    @property
    def base(self) -> str:
        """What the name of everything in this environment begins with."""
        return naming.environment_prefix(prefix=self.name_prefix, environment=self.name)

    @property
    def delivery_base(self) -> str:
        """What the names of those begin with that carry changes to it."""
        return naming.delivery_prefix(prefix=self.name_prefix, environment=self.name)

    @property
    def marks(self) -> Mapping[str, str]:
        """The tags by which a resource shows that it is this environment's."""
        own = {"project": self.name_prefix, "environment": self.name}
        return {key: self.tags.get(key, value) for key, value in own.items()}

    @property
    def release(self) -> TritonRelease:
        """What the environment's Triton image carries."""
        return RELEASES[self.triton_release]

    @property
    def bootstrap(self) -> Bootstrap:
        """What the CDK deploys it with."""
        return Bootstrap(self.bootstrap_qualifier, self.account, self.region, self.bootstrap_kms_key)

    @property
    def artifact_bucket(self) -> str:
        """Where this environment's artifacts lie."""
        return naming.artifact_bucket_name(self.base, account=self.account, region=self.region)

    @property
    def log_bucket(self) -> str:
        """Where the artifact bucket's access log goes."""
        return naming.log_bucket_name(self.base, account=self.account, region=self.region)

    @property
    def data_bucket(self) -> str:
        """Where captured requests and the answers of asynchronous endpoints go."""
        return naming.data_bucket_name(self.base, account=self.account, region=self.region)

    @property
    def roles_boundary(self) -> str:
        """Name of the policy that bounds every role: the file's own, or the one that the foundation makes."""
        return self.permissions_boundary or naming.boundary_name(self.base)

    @property
    def alarm_topic_arn(self) -> str:
        """The topic that its alarms go to."""
        return f"arn:aws:sns:{self.region}:{self.account}:{naming.alarm_topic_name(self.base)}"

    @property
    def is_protected(self) -> bool:
        """Whether a person has to lift its protection before it can be destroyed."""
        return self.removal == "retain" if self.protected is None else self.protected

    @property
    def builds_in_account(self) -> bool:
        """Whether models are built by jobs in its account; the embedded cloud does it only if asked to."""
        if self.builds.enabled is None:
            return not is_embedded(self.account)
        return self.builds.enabled

    @property
    def python(self) -> str:
        """The Python that serves its models on processors.

        The embedded server has that of the machine, unless builds run in containers.
        """
        if is_embedded(self.account) and not self.builds_in_account:
            return f"{sys.version_info.major}.{sys.version_info.minor}"
        return self.release.python

    def acceptable_targets(self, instance: InstanceType) -> tuple[str, ...]:
        """The targets whose artifacts its endpoints can run on a machine, the most specific first."""
        return acceptable_targets(instance, self.release, None if instance.gpus else self.python)

    def endpoint_name(self, endpoint: str) -> str:
        """The name that callers of InvokeEndpoint use."""
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
    def _owns_its_stacks(self) -> EnvironmentSpec:
        # The stacks of an environment `dev-endpoint` would be taken for endpoints of one named `dev`.
        if "endpoint" in self.base.split("-"):
            raise ValueError(
                f"{self.base!r} holds the word 'endpoint', which tells an environment's own stacks from "
                "those of its endpoints; choose another name or name_prefix"
            )
        return self

    @model_validator(mode="after")
    def _alarms_have_names_of_their_own(self) -> EnvironmentSpec:
        # An alarm of `search`'s challenger is named like the same one of an endpoint `search-challenger`.
        refuse(
            Fault(
                ("endpoints", taken),
                f"its alarms would have the names of those of {name!r}'s challenger",
                "choose another name",
            )
            for name, endpoint in self.endpoints.items()
            if getattr(endpoint, CHALLENGER, None) and (taken := f"{name}-{CHALLENGER}") in self.endpoints
        )
        return self

    @model_validator(mode="after")
    def _names_fit(self) -> EnvironmentSpec:
        if len(self.artifact_bucket) > naming.BUCKET_NAME_LIMIT:
            raise ValueError(
                f"the bucket name {self.artifact_bucket!r} would have {len(self.artifact_bucket)} "
                f"characters, {naming.BUCKET_NAME_LIMIT} are allowed; shorten name_prefix or name"
            )
        for endpoint, spec in self.endpoints.items():
            full, what = self.endpoint_name(endpoint), "endpoint name"
            if spec.components:
                full, what = naming.component_name(full), "name of the inference component"
            if len(full) > naming.ENDPOINT_NAME_LIMIT:
                raise ValueError(
                    f"the {what} {full!r} would have {len(full)} characters, "
                    f"{naming.ENDPOINT_NAME_LIMIT} are allowed; shorten name_prefix, name or {endpoint!r}"
                )
        return self


def shared_bootstraps(specs: Iterable[EnvironmentSpec]) -> list[str]:
    """Name the environments that share the roles of one `cdk bootstrap`: who deploys one can deploy all.

    Accounts of the embedded cloud are left out: nobody else deploys there.
    """
    sharing: dict[Bootstrap, list[str]] = {}
    for spec in specs:
        if not is_embedded(spec.account):
            sharing.setdefault(spec.bootstrap, []).append(spec.name)
    return [
        f"{', '.join(names)} share the bootstrap roles of {bootstrap.words}: whoever can deploy one of them "
        "can deploy the others; to separate them, give each a bootstrap_qualifier of its own"
        for bootstrap, names in sharing.items()
        if len(names) > 1
    ]
