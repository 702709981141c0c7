"""Read, evaluate, check, and plan a submitted template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_message
from tritonstack_local.cloudformation.changes import Providers, plan_changes
from tritonstack_local.cloudformation.deployments.operations import LiveValues
from tritonstack_local.cloudformation.errors import CloudFormationError, InsufficientCapabilitiesError
from tritonstack_local.cloudformation.records import Proposal, Stack, StackSettings
from tritonstack_local.cloudformation.store import AccountLookups, StackStore
from tritonstack_local.cloudformation.templates.evaluation import Evaluation
from tritonstack_local.cloudformation.templates.parameters import resolve_parameters
from tritonstack_local.cloudformation.templates.template import StackTemplate, parse_template
from tritonstack_local.scope import Scope

_LARGEST_BODY = 51_200
_LARGEST_FILE = 1_000_000
_NAMED_IAM = {
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::IAM::User": "UserName",
    "AWS::IAM::Group": "GroupName",
    "AWS::IAM::InstanceProfile": "InstanceProfileName",
}


def propose(
    *,
    store: StackStore,
    providers: Providers,
    stack: Stack,
    params: Mapping[str, Any],
    settings: StackSettings,
) -> Proposal:
    """Return the proposal of a CreateStack, UpdateStack, or CreateChangeSet call."""
    scope = Scope(stack.identity.account, stack.identity.region)
    template = stack.template if params.get("UsePreviousTemplate") else None
    template = template or _submitted_template(store=store, scope=scope, params=params)
    _check_capabilities(template, settings.capabilities)
    dependencies = AccountLookups(store, scope)
    parameters = resolve_parameters(
        declared=template.parameters,
        given={given["ParameterKey"]: given for given in params.get("Parameters", ())},
        previous=stack.parameters,
        read_ssm=dependencies.ssm_value,
    )
    evaluation = Evaluation(
        template=template,
        parameters=parameters,
        identity=stack.identity,
        dependencies=dependencies,
    )
    evaluation.check_rules()
    changes = plan_changes(
        existing=stack.resources, evaluation=evaluation, providers=providers, tags=settings.tags
    )
    return Proposal(
        settings=settings,
        evaluation=evaluation,
        changes=changes,
        changes_anything=bool(changes)
        or stack.template is None
        or bool(stack.unfinished or stack.leftovers)
        or _about_the_stack(settings) != _about_the_stack(stack.settings)
        or _outputs_change(stack, evaluation, providers),
    )


def _about_the_stack(settings: StackSettings) -> tuple[Mapping[str, str], str | None]:
    """Return the settings that the stack keeps; the others apply to this call only."""
    return settings.tags, settings.role_arn


def _outputs_change(stack: Stack, evaluation: Evaluation, providers: Providers) -> bool:
    """Return whether the outputs differ; only called if no resource changes."""
    if stack.template is not None and evaluation.template.outputs != stack.template.outputs:
        return True
    resolved = evaluation.resolve_outputs(LiveValues(stack.resources, providers))
    return {key: str(output["Value"]) for key, output in resolved.items()} != {
        output.key: output.value for output in stack.outputs
    }


def _submitted_template(*, store: StackStore, scope: Scope, params: Mapping[str, Any]) -> StackTemplate:
    """Return a call's template: from its body, or from S3."""
    given = [name for name in ("TemplateBody", "TemplateURL") if params.get(name)]
    if len(given) != 1:
        raise CloudFormationError("Either Template URL or Template Body must be specified.")
    if given == ["TemplateURL"]:
        return parse_template(_read_s3(store, scope, params["TemplateURL"]))
    body: str = params["TemplateBody"]
    if len(body.encode()) > _LARGEST_BODY:
        raise CloudFormationError(
            f"1 validation error detected: Value '{body}' at 'templateBody' failed to satisfy constraint: "
            f"Member must have length less than or equal to {_LARGEST_BODY}"
        )
    return parse_template(body)


def _read_s3(store: StackStore, scope: Scope, url: str) -> str:
    bucket, key = _s3_address(url)
    s3 = store.clients.client("s3", scope)
    try:
        body: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read(_LARGEST_FILE + 1)
    except ClientError as error:
        raise CloudFormationError(f"S3 error: {aws_error_message(error)} ({url})") from error
    if len(body) > _LARGEST_FILE:
        raise CloudFormationError(f"Template may not exceed {_LARGEST_FILE} bytes in size.")
    return body.decode()


def _s3_address(url: str) -> tuple[str, str]:
    """Return bucket and key of a template URL in path style or virtual-hosted style."""
    parts = urlsplit(url)
    host, path = parts.hostname or "", unquote(parts.path).lstrip("/")
    for base in ("s3.", "localhost", "127.0.0.1"):
        if host.startswith(base):
            bucket, _, key = path.partition("/")
            break
    else:
        bucket, key = host.split(".", 1)[0], path
    if parts.scheme not in {"http", "https"} or not bucket or not key:
        raise CloudFormationError("TemplateURL must be a supported URL.")
    return bucket, key


def _needed_capabilities(template: StackTemplate) -> tuple[str, ...]:
    """Return the capabilities that a template requires."""
    iam = [resource for resource in template.resources.values() if resource.type.startswith("AWS::IAM::")]
    named = any(_NAMED_IAM.get(resource.type, "") in resource.properties for resource in iam)
    return ("CAPABILITY_NAMED_IAM",) if named else ("CAPABILITY_IAM",) if iam else ()


def _check_capabilities(template: StackTemplate, given: tuple[str, ...]) -> None:
    """Reject a template without the required capabilities."""
    needed = _needed_capabilities(template)
    granted = set(given) | ({"CAPABILITY_IAM"} if "CAPABILITY_NAMED_IAM" in given else set())
    if not set(needed) <= granted:
        raise InsufficientCapabilitiesError(f"Requires capabilities : [{', '.join(needed)}]")
