"""Read, evaluate, check, and plan a submitted template."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code, aws_error_message
from tritonstack_local.cloudformation.changes import Providers, plan_changes
from tritonstack_local.cloudformation.errors import CloudFormationError, TemplateError
from tritonstack_local.cloudformation.evaluation import Evaluation
from tritonstack_local.cloudformation.operations import LiveValues
from tritonstack_local.cloudformation.records import Proposal, Stack, StackSettings
from tritonstack_local.cloudformation.template import StackTemplate, parse_template, resolve_parameters
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients

_LARGEST_BODY = 51_200
_LARGEST_FILE = 1_000_000
_NAMED_IAM = {"AWS::IAM::Role": "RoleName", "AWS::IAM::ManagedPolicy": "ManagedPolicyName"}


def propose(
    *,
    clients: Clients,
    providers: Providers,
    stack: Stack,
    params: Mapping[str, Any],
    settings: StackSettings,
) -> Proposal:
    """Return the proposal of a CreateStack, UpdateStack, or CreateChangeSet call."""
    scope = stack.identity.scope
    template = stack.template if params.get("UsePreviousTemplate") else None
    template = template or _submitted_template(clients, scope, params)
    _check_capabilities(template, settings.capabilities)
    parameters = resolve_parameters(
        declared=template.parameters,
        given={given["ParameterKey"]: given for given in params.get("Parameters", ())},
        previous=stack.parameters,
        read_ssm=functools.partial(_ssm_value, clients, scope),
    )
    zones = _zones(clients, scope) if "Fn::GetAZs" in template.body else []
    evaluation = Evaluation(template, parameters, stack.identity, zones)
    evaluation.check_rules()
    changes = plan_changes(
        existing=stack.resources, evaluation=evaluation, providers=providers, tags=settings.tags
    )
    return Proposal(
        settings=settings,
        evaluation=evaluation,
        changes=changes,
        changes_anything=bool(changes or stack.template is None or stack.unfinished or stack.leftovers)
        or (settings.tags, settings.role_arn) != (stack.settings.tags, stack.settings.role_arn)
        or _outputs_change(stack, evaluation),
    )


def _outputs_change(stack: Stack, evaluation: Evaluation) -> bool:
    """Return whether the outputs differ; only called if no resource changes."""
    if stack.template is not None and evaluation.template.outputs != stack.template.outputs:
        return True
    resolved = evaluation.resolve_outputs(LiveValues(stack.resources))
    return {key: str(output["Value"]) for key, output in resolved.items()} != {
        output["OutputKey"]: output["OutputValue"] for output in stack.outputs
    }


def _ssm_value(clients: Clients, scope: Scope, name: str) -> str:
    try:
        return str(clients.client("ssm", scope).get_parameter(Name=name)["Parameter"]["Value"])
    except ClientError as error:
        if aws_error_code(error) != "ParameterNotFound":
            raise
        raise TemplateError(
            f"Unable to fetch parameters [{name}] from parameter store for this account."
        ) from error


def _zones(clients: Clients, scope: Scope) -> list[str]:
    zones = clients.client("ec2", scope).describe_availability_zones()["AvailabilityZones"]
    return [zone["ZoneName"] for zone in zones]


def _submitted_template(clients: Clients, scope: Scope, params: Mapping[str, Any]) -> StackTemplate:
    """Return a call's template: from its body, or from S3."""
    body, url = params.get("TemplateBody"), params.get("TemplateURL")
    if bool(body) == bool(url):
        raise CloudFormationError("Either Template URL or Template Body must be specified.")
    if not body:
        return parse_template(_read_s3(clients.client("s3", scope), str(url)))
    if len(body.encode()) > _LARGEST_BODY:
        raise CloudFormationError(
            f"1 validation error detected: Value '{body}' at 'templateBody' failed to satisfy constraint: "
            f"Member must have length less than or equal to {_LARGEST_BODY}"
        )
    return parse_template(body)


def _read_s3(s3: Any, url: str) -> str:
    bucket, key = _s3_address(url)
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


def _check_capabilities(template: StackTemplate, given: tuple[str, ...]) -> None:
    """Reject a template without the required capabilities."""
    iam = [resource for resource in template.resources.values() if resource.type.startswith("AWS::IAM::")]
    named = any(_NAMED_IAM.get(resource.type) in resource.properties for resource in iam)
    enough = {"CAPABILITY_NAMED_IAM"} | (set() if named else {"CAPABILITY_IAM"})
    if iam and not enough & set(given):
        raise CloudFormationError(
            f"Requires capabilities : [{'CAPABILITY_NAMED_IAM' if named else 'CAPABILITY_IAM'}]",
            code="InsufficientCapabilitiesException",
        )
