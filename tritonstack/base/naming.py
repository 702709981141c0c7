"""Names of the resources that an environment deploys.

Stacks, operations, and people find each other's resources through these functions, never through
CloudFormation exports: a name depends on the environment file alone.
"""

from __future__ import annotations

import re
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


def environment_prefix(*, prefix: str, environment: str) -> str:
    """Return the prefix of all names in an environment."""
    return f"{prefix}-{environment}"


def delivery_prefix(*, prefix: str, environment: str) -> str:
    """Return the name prefix of an environment's delivery roles.

    It differs from the environment's own prefix, so that a role allowed to change all resources with the
    environment's prefix cannot change its own permissions.
    """
    return f"{prefix}-{DELIVERY}-{environment}"


DELIVERY = "delivery"
"""Reserved: environments cannot have this name."""
DeliveryRole = Literal["plan", "deploy", "promote", "preview", "clean-up"]
"""What workflows do; each has its own role."""
DUTIES: tuple[DeliveryRole, ...] = ("plan", "deploy", "promote", "preview", "clean-up")


def delivery_role_name(base: str, duty: DeliveryRole) -> str:
    """Return the role that a workflow assumes; `base` is the delivery prefix."""
    return f"{base}-{duty}"


def delivery_boundary_name(base: str) -> str:
    """Return the permissions boundary of all delivery roles."""
    return f"{base}-boundary"


def execution_policy_names(base: str) -> tuple[str, str]:
    """Return the policies given to `cdk bootstrap`: what CloudFormation may do for an environment."""
    return f"{base}-execution", f"{base}-execution-security"


def boundary_name(base: str) -> str:
    """Return the default permissions boundary of an environment's roles."""
    return f"{base}-boundary"


def preview_execution_role_name(base: str) -> str:
    """Return the role that CloudFormation uses to create previews."""
    return f"{base}-preview-execution"


def preview_boundary_name(base: str) -> str:
    """Return the permissions boundary of roles inside a preview, if its template names it."""
    return f"{base}-preview-boundary"


def pipeline_name(prefix: str) -> str:
    """Return the name of the CodePipeline pipeline and its stack."""
    return f"{prefix}-{DELIVERY}-pipeline"


def pipeline_role_name(prefix: str, step: str) -> str:
    """Return a role of the pipeline's steps."""
    return f"{pipeline_name(prefix)}-{step}"


def pipeline_duty(duty: DeliveryRole, environment: str) -> str:
    """Return the name of one duty's steps in one environment, for which its role trusts only their role."""
    return f"{duty}-{environment}"


def foundation_stack_name(base: str) -> str:
    """Return the stack that holds what all endpoints of an environment share."""
    return f"{base}-foundation"


def endpoint_stack_name(base: str, endpoint: str) -> str:
    """Return the stack of one endpoint."""
    return f"{base}-endpoint-{endpoint}"


def network_stack_name(base: str) -> str:
    """Return the stack of an environment's own network."""
    return f"{base}-network"


def monitoring_stack_name(base: str) -> str:
    """Return the stack of the dashboard over all endpoints of an environment."""
    return f"{base}-monitoring"


def build_stack_name(base: str) -> str:
    """Return the stack that builds images and models in the account."""
    return f"{base}-build"


def base_of_stack(stack: str) -> str | None:
    """Return the name prefix of the environment that a stack belongs to; None for other stacks."""
    base, found, _ = stack.partition("-endpoint-")
    if found:
        return base
    for name_of in (foundation_stack_name, build_stack_name, network_stack_name, monitoring_stack_name):
        if stack.endswith(ending := name_of("")):
            return stack.removesuffix(ending)
    return None


def build_project_name(base: str, hardware: str) -> str:
    """Return the CodeBuild project that builds models for one hardware target: cpu, sm86."""
    return f"{base}-build-{hardware}"


def image_project_name(base: str) -> str:
    """Return the CodeBuild project that builds the images in which models are built."""
    return f"{base}-build-images"


def build_log_group(base: str) -> str:
    """Return the log group of CodeBuild."""
    return f"/{base}/builds"


def processing_job_name(base: str, job: str, attempt: int) -> str:
    """Return the name of a build that runs as a SageMaker Processing job."""
    return f"{build_stack_name(base)}-{job}-{attempt}"


def build_stack_of_job(processing_job: str) -> str | None:
    """Return the build stack that a Processing job belongs to; None for unrelated jobs."""
    found = re.fullmatch(r"(.+-build)-[0-9a-f]{16}-\d+", processing_job)
    return found[1] if found else None


def promotion_role_name(base: str) -> str:
    """Return the role other accounts use to read artifacts for promotion; `base` is the delivery prefix."""
    return f"{base}-promotion-reader"


def model_prefix(model: str) -> str:
    """Return the prefix in the artifact bucket that builds of a model write to, with a trailing slash."""
    return f"{MODELS}{model}/"


def build_record_key(model: str, job: str) -> str:
    """Return the key in the artifact bucket under which a build job records its artifact."""
    return f"{model_prefix(model)}builds/{job}.json"


def build_cache_prefix(model: str) -> str:
    """Return the prefix under which builds of a model cache slow results."""
    return f"{model_prefix(model)}caches"


def build_role_parameter(model: str) -> str:
    """Return the CloudFormation parameter name of the role of a model that runs its own code."""
    return f"build-roles/{model}"


MODELS = "models/"
SHELVES = "endpoints/"
REQUESTS, ANSWERS, FAILURES = "requests/", "answers/", "failures/"
"""Prefix of asynchronous endpoints' objects in the data bucket."""
EVENTS = "events/"
"""Prefix of the events in an artifact bucket (tritonstack.records.events)."""
SUPERSEDED_TAG = ("superseded", "true")
"""Tag of objects that no recent lock names; a lifecycle rule deletes them."""
OWNER_TAG = "tritonstack:stack"
"""Tag of endpoint configurations and models with the name of their stack, which they can outlive."""
PROCESSING_LOG_GROUP = "/aws/sagemaker/ProcessingJobs"
"""Log group of all Processing jobs of an account; SageMaker chooses the name."""


def parameter_name(base: str, name: str) -> str:
    """Return the SSM parameter by which one stack gives others an id known only after its deployment."""
    return f"/{base}/{name}"


def targets_path(base: str, endpoint: str) -> str:
    """Return the path of the SSM parameters that map the models of a multi-model endpoint to TargetModels."""
    return parameter_name(base, f"targets/{endpoint}")


KEY_PARAMETER = "key-arn"
INSTANCE_PARAMETER = "instance"
"""SSM parameter that holds the request an instance of a template was created with."""
SUBNETS_PARAMETER = "subnet-ids"
SECURITY_GROUPS_PARAMETER = "security-group-ids"


def endpoint_name(base: str, endpoint: str) -> str:
    """Return the endpoint name that callers of InvokeEndpoint use."""
    return f"{base}-{endpoint}"


def artifact_bucket_name(base: str, *, account: str, region: str) -> str:
    """Return the artifact bucket. Bucket names are global, so they include account and region."""
    return f"{base}-artifacts-{account}-{region}"


def log_bucket_name(base: str, *, account: str, region: str) -> str:
    """Return the bucket of the artifact bucket's access log."""
    return f"{base}-logs-{account}-{region}"


def data_bucket_name(base: str, *, account: str, region: str) -> str:
    """Return the bucket of captured requests and of asynchronous endpoints' responses."""
    return f"{base}-data-{account}-{region}"


def capture_prefix(endpoint: str) -> str:
    """Return the prefix of an endpoint's captured requests in the data bucket, with a trailing slash."""
    return f"capture/{endpoint}/"


def answer_prefix(endpoint: str) -> str:
    """Return the prefix of an asynchronous endpoint's responses in the data bucket, with a trailing slash."""
    return f"{ANSWERS}{endpoint}/"


def failure_prefix(endpoint: str) -> str:
    """Return the prefix of an asynchronous endpoint's failures in the data bucket, with a trailing slash."""
    return f"{FAILURES}{endpoint}/"


def request_prefix(endpoint: str) -> str:
    """Return the prefix callers put an asynchronous endpoint's requests under, with a trailing slash."""
    return f"{REQUESTS}{endpoint}/"


def key_alias(base: str) -> str:
    """Return the alias of the environment's KMS key."""
    return f"alias/{base}"


def alarm_topic_name(base: str) -> str:
    """Return the SNS topic of alarms."""
    return f"{base}-alarms"


def failed_updates_rule_name(base: str) -> str:
    """Return the EventBridge rule for endpoints that fail or roll back."""
    return f"{base}-failed-updates"


def failed_deployments_rule_name(base: str) -> str:
    """Return the EventBridge rule for endpoint stacks that fail or roll back."""
    return f"{base}-failed-deployments"


def endpoint_log_groups(base: str) -> tuple[str, ...]:
    """Return name patterns of the log groups of an environment's endpoints."""
    return (endpoint_log_group(f"{base}-*"), component_log_group(f"{base}-*"))


def flow_log_group(base: str) -> str:
    """Return the log group of the VPC flow logs of an environment's network."""
    return f"/{base}/network-flows"


def image_repository_name(base: str, image: str) -> str:
    """Return the ECR repository of one of the images in containers/."""
    return f"{base}/{image}"


def endpoint_log_group(endpoint: str) -> str:
    """Return the log group of an endpoint's containers; SageMaker chooses the name."""
    return f"/aws/sagemaker/Endpoints/{endpoint}"


def component_log_group(component: str) -> str:
    """Return the log group of an inference component's containers; SageMaker chooses the name."""
    return f"/aws/sagemaker/InferenceComponents/{component}"


def codebuild_log_group(project: str) -> str:
    """Return the log group of a CodeBuild project that names none; CodeBuild chooses the name."""
    return f"/aws/codebuild/{project}"


def multi_model_prefix(endpoint: str) -> str:
    """Return the prefix of a multi-model endpoint's models in the artifact bucket, with a trailing slash.

    The models there are copies of artifacts, so that one prefix limits the endpoint's role to its own models:
    a policy has no room for a thousand names.
    """
    return f"{SHELVES}{endpoint}/"


def target_model(model: str, digest: str) -> str:
    """Return the TargetModel of a multi-model endpoint: a key relative to its model prefix."""
    return f"{model}/{digest}/model.tar.gz"


def component_name(endpoint: str) -> str:
    """Return the one inference component of an endpoint."""
    return f"{endpoint}-component"


def alarm_name(endpoint: str, variant: str, alarm: str) -> str:
    """Return the name of an endpoint's alarm. Alarms of the main variant omit the variant's name."""
    return f"{endpoint}-{alarm}" if variant == "main" else f"{endpoint}-{variant}-{alarm}"


def endpoint_dashboard_name(endpoint: str, *, region: str) -> str:
    """Return the dashboard of one endpoint. Dashboards belong to an account, not to a region."""
    return f"{endpoint}_{region}"


def environment_dashboard_name(base: str, *, region: str, page: int = 1) -> str:
    """Return the dashboard over all endpoints of an environment; a very large one has several pages."""
    return f"{base}_environment_{region}" if page == 1 else f"{base}_environment_{region}_{page}"


def success_topic_name(endpoint: str) -> str:
    """Return the SNS topic of an asynchronous endpoint's responses."""
    return f"{endpoint}-success"


def error_topic_name(endpoint: str) -> str:
    """Return the SNS topic of an asynchronous endpoint's failures."""
    return f"{endpoint}-error"


def artifact_prefix(model: str, digest: str) -> str:
    """Return the path of an artifact in a bucket or in the local store, without a trailing slash."""
    return f"{model_prefix(model)}{digest}"
