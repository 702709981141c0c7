"""Names that an environment gives to what it deploys.

Stacks, operations and people find each other's resources through these functions, never through
CloudFormation exports: a name follows from the environment's file alone.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator

NAME_PATTERN = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
ENDPOINT_NAME_LIMIT = 63
BUCKET_NAME_LIMIT = 63


def check_name(text: str) -> str:
    """Names become folders, TargetModels and parts of ARNs: keep to what all of those accept."""
    if not NAME_PATTERN.fullmatch(text) or len(text) > 40 or "--" in text:
        raise ValueError(
            f"{text!r} is not a name; use up to 40 lower-case letters, digits and single hyphens, "
            "beginning with a letter"
        )
    return text


Name = Annotated[str, AfterValidator(check_name)]


def environment_prefix(*, prefix: str, environment: str) -> str:
    """What every name in an environment begins with."""
    return f"{prefix}-{environment}"


def delivery_prefix(*, prefix: str, environment: str) -> str:
    """What the names of those begin with that carry changes to an environment.

    Not like the environment's own: what may change all that is named like it cannot change its own rights.
    """
    return f"{prefix}-{DELIVERY}-{environment}"


DELIVERY = "delivery"
"""No environment may bear this name."""
Duty = Literal["plan", "deploy", "promote", "preview", "clean-up"]
"""What workflows do, each with a role of its own."""
DUTIES: tuple[Duty, ...] = ("plan", "deploy", "promote", "preview", "clean-up")


def delivery_role_name(base: str, duty: Duty) -> str:
    """The role that a workflow takes on for a duty; `base` is that of those who carry changes."""
    return f"{base}-{duty}"


def delivery_boundary_name(base: str) -> str:
    """The policy that bounds every role of those who carry changes."""
    return f"{base}-boundary"


def execution_policy_names(base: str) -> tuple[str, str]:
    """What CloudFormation may do for an environment: the policies that `cdk bootstrap` is given."""
    return f"{base}-execution", f"{base}-execution-security"


def boundary_name(base: str) -> str:
    """The policy that bounds every role of an environment, where its file names no other."""
    return f"{base}-boundary"


def preview_execution_role_name(base: str) -> str:
    """The role that CloudFormation makes previews with."""
    return f"{base}-preview-execution"


def preview_boundary_name(base: str) -> str:
    """The policy that bounds every role inside a preview, where its template names that one."""
    return f"{base}-preview-boundary"


def pipeline_name(prefix: str) -> str:
    """The pipeline of the road inside AWS, and its stack."""
    return f"{prefix}-{DELIVERY}-pipeline"


def pipeline_role_name(prefix: str, what: str) -> str:
    """What steps of the pipeline run with."""
    return f"{pipeline_name(prefix)}-{what}"


def pipeline_duty(duty: Duty, environment: str) -> str:
    """The steps of one duty in one environment: its own role trusts theirs, and no other step's."""
    return f"{duty}-{environment}"


def foundation_stack_name(base: str) -> str:
    """The stack that holds what all endpoints of an environment share."""
    return f"{base}-foundation"


def endpoint_stack_name(base: str, endpoint: str) -> str:
    """The stack of one endpoint."""
    return f"{base}-endpoint-{endpoint}"


def network_stack_name(base: str) -> str:
    """The stack of an environment's own network."""
    return f"{base}-network"


def monitoring_stack_name(base: str) -> str:
    """The stack of the dashboard over all endpoints of an environment."""
    return f"{base}-monitoring"


def build_stack_name(base: str) -> str:
    """The stack of what builds images and models in the account."""
    return f"{base}-build"


def base_of_stack(stack: str) -> str | None:
    """What the names of an environment begin with, by the name of one of its stacks; None for others."""
    base, found, _ = stack.partition("-endpoint-")
    if found:
        return base
    for name_of in (foundation_stack_name, build_stack_name, network_stack_name, monitoring_stack_name):
        if stack.endswith(ending := name_of("")):
            return stack.removesuffix(ending)
    return None


def build_project_name(base: str, hardware: str) -> str:
    """The CodeBuild project that builds models on one kind of machine: cpu, sm86."""
    return f"{base}-build-{hardware}"


def image_project_name(base: str) -> str:
    """The CodeBuild project that builds the images which models are built in."""
    return f"{base}-build-images"


def build_log_group(base: str) -> str:
    """Where CodeBuild writes what builds say."""
    return f"/{base}/builds"


def processing_job_name(base: str, job: str, attempt: int) -> str:
    """A build that runs as a SageMaker Processing job."""
    return f"{build_stack_name(base)}-{job}-{attempt}"


def build_stack_of_job(processing_job: str) -> str | None:
    """The build stack of the environment that a Processing job builds for; None for other people's jobs."""
    found = re.fullmatch(r"(.+-build)-[0-9a-f]{16}-\d+", processing_job)
    return found[1] if found else None


def promotion_role_name(base: str) -> str:
    """The role by which other accounts read what they promote; `base` is that of those who carry changes."""
    return f"{base}-promotion-reader"


def model_prefix(model: str) -> str:
    """Below which all lies in the artifact bucket that builds of a model write, with the slash at its end."""
    return f"{MODELS}{model}/"


def build_record_key(model: str, job: str) -> str:
    """Where a build job writes into the artifact bucket which artifact came of it."""
    return f"{model_prefix(model)}builds/{job}.json"


def build_cache_prefix(model: str) -> str:
    """Below which builds of a model keep for the next one what takes long to find out."""
    return f"{model_prefix(model)}caches"


def build_role_parameter(model: str) -> str:
    """What the role of a model that brings code of its own is called among the parameters."""
    return f"build-roles/{model}"


MODELS = "models/"
SHELVES = "endpoints/"
REQUESTS, ANSWERS, FAILURES = "requests/", "answers/", "failures/"
"""Below which the data bucket holds what passes through asynchronous endpoints."""
EVENTS = "events/"
"""Below which an artifact bucket keeps what happened to its artifacts (tritonstack.records.events)."""
PROMOTIONS = "promotions/"
"""Prefix of the promotion claims in an artifact bucket (tritonstack.operations.promotion.claims)."""
SUPERSEDED_TAG = ("superseded", "true")
"""What objects are marked with that no lock of late names any more; a lifecycle rule takes them."""
PROCESSING_LOG_GROUP = "/aws/sagemaker/ProcessingJobs"
"""Where SageMaker writes the logs of all Processing jobs of an account; the name is SageMaker's own."""


def parameter_name(base: str, what: str) -> str:
    """The SSM parameter by which one stack tells others an id that it was given only when it was deployed."""
    return f"/{base}/{what}"


KEY_PARAMETER = "key-arn"
INSTANCE_PARAMETER = "instance"
"""Where an instance of a template keeps what it was asked for with."""
SUBNETS_PARAMETER = "subnet-ids"
SECURITY_GROUPS_PARAMETER = "security-group-ids"


def endpoint_name(base: str, endpoint: str) -> str:
    """The name callers of InvokeEndpoint use."""
    return f"{base}-{endpoint}"


def artifact_bucket_name(base: str, *, account: str, region: str) -> str:
    """Where artifacts lie; bucket names are global, so account and region are part of it."""
    return f"{base}-artifacts-{account}-{region}"


def log_bucket_name(base: str, *, account: str, region: str) -> str:
    """Where the artifact bucket's access log goes."""
    return f"{base}-logs-{account}-{region}"


def data_bucket_name(base: str, *, account: str, region: str) -> str:
    """Where captured requests and the answers of asynchronous endpoints go."""
    return f"{base}-data-{account}-{region}"


def capture_prefix(endpoint: str) -> str:
    """Where an endpoint's captured requests lie in the data bucket, with the slash at its end."""
    return f"capture/{endpoint}/"


def answer_prefix(endpoint: str) -> str:
    """Where an asynchronous endpoint's answers lie in the data bucket, with the slash at its end."""
    return f"{ANSWERS}{endpoint}/"


def failure_prefix(endpoint: str) -> str:
    """Where an asynchronous endpoint's failures lie in the data bucket, with the slash at its end."""
    return f"{FAILURES}{endpoint}/"


def request_prefix(endpoint: str) -> str:
    """Where callers put the requests of an asynchronous endpoint, with the slash at its end."""
    return f"{REQUESTS}{endpoint}/"


def key_alias(base: str) -> str:
    """The alias of the environment's KMS key."""
    return f"alias/{base}"


def alarm_topic_name(base: str) -> str:
    """The topic that alarms go to."""
    return f"{base}-alarms"


def failed_updates_rule_name(base: str) -> str:
    """The EventBridge rule that hears of endpoints that fail or roll back."""
    return f"{base}-failed-updates"


def failed_deployments_rule_name(base: str) -> str:
    """The EventBridge rule that hears of endpoints' stacks that fail or roll back."""
    return f"{base}-failed-deployments"


def endpoint_log_groups(base: str) -> tuple[str, ...]:
    """Patterns of the log groups that the endpoints of an environment have, whatever they are called."""
    return (endpoint_log_group(f"{base}-*"), component_log_group(f"{base}-*"))


def flow_log_group(base: str) -> str:
    """Where the traffic of an environment's own network is recorded."""
    return f"/{base}/network-flows"


def image_repository_name(base: str, image: str) -> str:
    """The ECR repository of one of the images in containers/."""
    return f"{base}/{image}"


def endpoint_log_group(endpoint: str) -> str:
    """Where SageMaker writes the log of an endpoint's containers; the name is SageMaker's own."""
    return f"/aws/sagemaker/Endpoints/{endpoint}"


def component_log_group(component: str) -> str:
    """Where SageMaker writes the log of an inference component's containers; the name is SageMaker's own."""
    return f"/aws/sagemaker/InferenceComponents/{component}"


def codebuild_log_group(project: str) -> str:
    """Where CodeBuild writes the log of a project that names no group; the name is CodeBuild's own."""
    return f"/aws/codebuild/{project}"


def shelf_prefix(endpoint: str) -> str:
    """Where a multi-model endpoint finds its models in the artifact bucket, with the slash at its end.

    Copies of the artifacts, so that the endpoint's role is limited to its own models by one prefix however
    many they are: a policy has no room for a thousand names.
    """
    return f"{SHELVES}{endpoint}/"


def target_model(model: str, digest: str) -> str:
    """What callers of a multi-model endpoint give as TargetModel: a place on its shelf."""
    return f"{model}/{digest}/model.tar.gz"


def component_name(endpoint: str) -> str:
    """The one inference component of an endpoint."""
    return f"{endpoint}-component"


def alarm_name(endpoint: str, variant: str, alarm: str) -> str:
    """An alarm of an endpoint. That of the main variant bears no variant's name."""
    return f"{endpoint}-{alarm}" if variant == "main" else f"{endpoint}-{variant}-{alarm}"


def endpoint_dashboard_name(endpoint: str, *, region: str) -> str:
    """The dashboard of one endpoint. Dashboards belong to an account, whatever the region."""
    return f"{endpoint}_{region}"


def environment_dashboard_name(base: str, *, region: str, page: int = 1) -> str:
    """The dashboard over all endpoints of an environment; a very large one has several pages."""
    return f"{base}_environment_{region}" if page == 1 else f"{base}_environment_{region}_{page}"


def success_topic_name(endpoint: str) -> str:
    """The topic that hears of every answer of an asynchronous endpoint."""
    return f"{endpoint}-success"


def error_topic_name(endpoint: str) -> str:
    """The topic that hears of every failure of an asynchronous endpoint."""
    return f"{endpoint}-error"


def artifact_prefix(model: str, digest: str) -> str:
    """Where an artifact lies in a bucket or in the local store, without a slash at its end."""
    return f"{model_prefix(model)}{digest}"
