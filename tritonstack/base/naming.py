"""Names of the resources that an environment deploys: a table, and the function that fills in a name.

Stacks, operations, and people find each other's resources through these names, never through
CloudFormation exports: a name depends on the environment file alone. `base` is the prefix of an environment
or of its delivery roles; names of objects and prefixes are relative to a bucket.
"""

from __future__ import annotations

import re
from string import Formatter
from typing import Annotated, Literal

from pydantic import AfterValidator

NAME_PATTERN = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
ENDPOINT_NAME_LIMIT = 63
BUCKET_NAME_LIMIT = 63


def check_name(text: str) -> str:
    """Check a name. Names become folders, TargetModels, and parts of ARNs, so all of those must accept it."""
    if not NAME_PATTERN.fullmatch(text) or len(text) > 40 or "--" in text:
        raise ValueError(
            f"invalid name {text!r}; use up to 40 lowercase letters, digits, and single hyphens, "
            "starting with a letter"
        )
    return text


Name = Annotated[str, AfterValidator(check_name)]


class NamePattern:
    """A name with gaps. Called with its parts, in order or by keyword, it returns the name."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.gaps = [gap for _, gap, _, _ in Formatter().parse(text) if gap is not None]

    def __call__(self, *parts: object, **fields: object) -> str:
        """Fill in the name."""
        if len(parts) + len(fields) != len(self.gaps):
            raise TypeError(f"expected the parts {self.gaps}")
        return self._text.format(**dict(zip(self.gaps, parts, strict=False)), **fields)


DELIVERY = "delivery"
"""Reserved: environments cannot have this name."""
DeliveryRole = Literal["plan", "deploy", "promote", "preview", "clean-up"]
"""What workflows do; each has its own role."""
DUTIES: tuple[DeliveryRole, ...] = ("plan", "deploy", "promote", "preview", "clean-up")

environment_prefix = NamePattern("{prefix}-{environment}")
# Delivery roles have another prefix, so that a role allowed to change all resources with the environment's
# prefix cannot change its own permissions.
delivery_prefix = NamePattern("{prefix}-delivery-{environment}")
delivery_role_name = NamePattern("{base}-{duty}")
delivery_boundary_name = NamePattern("{base}-boundary")
boundary_name = NamePattern("{base}-boundary")
"""Default permissions boundary of an environment's roles."""
preview_execution_role_name = NamePattern("{base}-preview-execution")
"""Role that CloudFormation uses to create previews."""
preview_boundary_name = NamePattern("{base}-preview-boundary")
"""Permissions boundary of roles inside a preview, if its template names it."""
promotion_role_name = NamePattern("{base}-promotion-reader")
"""Role other accounts use to read artifacts for promotion."""
pipeline_name = NamePattern("{prefix}-delivery-pipeline")
"""CodePipeline pipeline and its stack."""
pipeline_role_name = NamePattern("{prefix}-delivery-pipeline-{step}")
pipeline_duty = NamePattern("{duty}-{environment}")
"""One duty's steps in one environment, for which its role trusts only their role."""

foundation_stack_name = NamePattern("{base}-foundation")
"""Stack that holds what all endpoints of an environment share."""
endpoint_stack_name = NamePattern("{base}-endpoint-{endpoint}")
network_stack_name = NamePattern("{base}-network")
monitoring_stack_name = NamePattern("{base}-monitoring")
"""Stack of the dashboard over all endpoints of an environment."""
build_stack_name = NamePattern("{base}-build")
"""Stack that builds images and models in the account."""

build_project_name = NamePattern("{base}-build-{hardware}")
"""CodeBuild project that builds models for one hardware target: cpu, sm86."""
image_project_name = NamePattern("{base}-build-images")
"""CodeBuild project that builds the images in which models are built."""
processing_job_name = NamePattern("{base}-build-{job}-{attempt}")
"""Build that runs as a SageMaker Processing job."""
build_role_parameter = NamePattern("build-roles/{model}")
"""CloudFormation parameter of the role of a model that runs its own code."""
image_repository_name = NamePattern("{base}/{image}")
"""ECR repository of one of the images in containers/."""

build_log_group = NamePattern("/{base}/builds")
flow_log_group = NamePattern("/{base}/network-flows")
"""VPC flow logs of an environment's network."""
# SageMaker and CodeBuild choose the names of these log groups.
endpoint_log_group = NamePattern("/aws/sagemaker/Endpoints/{endpoint}")
component_log_group = NamePattern("/aws/sagemaker/InferenceComponents/{component}")
codebuild_log_group = NamePattern("/aws/codebuild/{project}")
PROCESSING_LOG_GROUP = "/aws/sagemaker/ProcessingJobs"
"""Log group of all Processing jobs of an account."""

# Bucket names are global, so they include account and region.
artifact_bucket_name = NamePattern("{base}-artifacts-{account}-{region}")
log_bucket_name = NamePattern("{base}-logs-{account}-{region}")
"""Bucket of the artifact bucket's access log."""
data_bucket_name = NamePattern("{base}-data-{account}-{region}")
"""Bucket of captured requests and of asynchronous endpoints' responses."""

MODELS, MULTI_MODEL = "models/", "endpoints/"
EVENTS = "events/"
"""Prefix of the events in an artifact bucket (tritonstack.files.records.events)."""
REQUESTS, ANSWERS, FAILURES = "requests/", "answers/", "failures/"
"""Prefix of asynchronous endpoints' objects in the data bucket."""
model_prefix = NamePattern("models/{model}/")
"""What builds of a model write to, with a trailing slash."""
artifact_prefix = NamePattern("models/{model}/{digest}")
"""Path of an artifact in a bucket or in the local store, without a trailing slash."""
build_record_key = NamePattern("models/{model}/builds/{job}.json")
"""Where a build job records its artifact."""
build_cache_prefix = NamePattern("models/{model}/caches")
"""Where builds of a model cache slow results."""
# A multi-model endpoint's models are copies of artifacts, so that one prefix limits the endpoint's role to
# its own models: a policy has no room for a thousand names.
multi_model_prefix = NamePattern("endpoints/{endpoint}/")
target_model = NamePattern("{model}/{digest}/model.tar.gz")
"""TargetModel of a multi-model endpoint: a key relative to its model prefix."""
capture_prefix = NamePattern("capture/{endpoint}/")
"""An endpoint's captured requests in the data bucket, with a trailing slash; so have the next three."""
answer_prefix = NamePattern("answers/{endpoint}/")
failure_prefix = NamePattern("failures/{endpoint}/")
request_prefix = NamePattern("requests/{endpoint}/")
SUPERSEDED_TAG = ("superseded", "true")
"""Tag of objects that no recent lock names; a lifecycle rule deletes them."""
OWNER_TAG = "tritonstack:stack"
"""Tag of endpoint configurations and models with the name of their stack, which they can outlive."""

parameter_name = NamePattern("/{base}/{name}")
"""SSM parameter by which one stack gives others an id known only after its deployment."""
targets_path = NamePattern("/{base}/targets/{endpoint}")
"""Path of the SSM parameters that map the models of a multi-model endpoint to TargetModels."""
KEY_PARAMETER = "key-arn"
INSTANCE_PARAMETER = "instance"
"""SSM parameter that holds the request an instance of a template was created with."""
SUBNETS_PARAMETER = "subnet-ids"
SECURITY_GROUPS_PARAMETER = "security-group-ids"

endpoint_name = NamePattern("{base}-{endpoint}")
"""What callers of InvokeEndpoint use."""
component_name = NamePattern("{endpoint}-component")
"""The one inference component of an endpoint."""
key_alias = NamePattern("alias/{base}")
"""Alias of the environment's KMS key."""
alarm_topic_name = NamePattern("{base}-alarms")
success_topic_name = NamePattern("{endpoint}-success")
"""SNS topic of an asynchronous endpoint's responses."""
error_topic_name = NamePattern("{endpoint}-error")
failed_updates_rule_name = NamePattern("{base}-failed-updates")
"""EventBridge rule for endpoints that fail or roll back."""
failed_deployments_rule_name = NamePattern("{base}-failed-deployments")
"""EventBridge rule for endpoint stacks that fail or roll back."""
# Dashboards belong to an account, not to a region.
endpoint_dashboard_name = NamePattern("{endpoint}_{region}")


def environment_dashboard_name(base: str, *, region: str, page: int = 1) -> str:
    """Return the dashboard over all endpoints of an environment; a very large one has several pages."""
    return f"{base}_environment_{region}" if page == 1 else f"{base}_environment_{region}_{page}"


def alarm_name(endpoint: str, variant: str, alarm: str) -> str:
    """Return the name of an endpoint's alarm. Alarms of the main variant omit the variant's name."""
    return f"{endpoint}-{alarm}" if variant == "main" else f"{endpoint}-{variant}-{alarm}"


def endpoint_log_groups(base: str) -> tuple[str, ...]:
    """Return name patterns of the log groups of an environment's endpoints."""
    return (endpoint_log_group(f"{base}-*"), component_log_group(f"{base}-*"))


def execution_policy_names(base: str) -> tuple[str, str]:
    """Return the policies given to `cdk bootstrap`: what CloudFormation may do for an environment."""
    return f"{base}-execution", f"{base}-execution-security"


def base_of_stack(stack: str) -> str | None:
    """Return the name prefix of the environment that a stack belongs to; None for other stacks."""
    base, separator, _ = stack.partition("-endpoint-")
    if separator:
        return base
    for name_of in (foundation_stack_name, build_stack_name, network_stack_name, monitoring_stack_name):
        if stack.endswith(ending := name_of("")):
            return stack.removesuffix(ending)
    return None


def build_stack_of_job(processing_job: str) -> str | None:
    """Return the build stack that a Processing job belongs to; None for unrelated jobs."""
    match = re.fullmatch(r"(.+-build)-[0-9a-f]{16}-\d+", processing_job)
    return match[1] if match else None
