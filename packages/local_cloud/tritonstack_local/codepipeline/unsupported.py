"""Fields that CodePipeline rejects because they are not implemented, and fields accepted without effect.

Every field of a declaration in neither table has its effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tritonstack_local.codepipeline.errors import not_supported

_NO_CONDITIONS = "stage conditions and automatic retries are not supported"
_NO_GIT = "the local cloud receives no webhooks from Git providers"
_ONE_REGION = "cross-region actions are not supported"

# Field of the service model, by structure -> why it has no effect.
ACCEPTED_WITHOUT_EFFECT: dict[str, str] = {
    "ArtifactStore.encryptionKey": "nothing is encrypted",
    "S3.PollForSourceChanges": "sources are not polled; start an execution",
    "CloudFormation.RoleArn": "all stack operations are allowed",
}

# Field -> why it is rejected.
UNSUPPORTED: dict[str, str] = {
    "PipelineDeclaration.artifactStores": _ONE_REGION,
    "PipelineDeclaration.triggers": _NO_GIT,
    "StageDeclaration.blockers": "blockers are set by AWS only",
    "StageDeclaration.beforeEntry": _NO_CONDITIONS,
    "StageDeclaration.onSuccess": _NO_CONDITIONS,
    "StageDeclaration.onFailure": _NO_CONDITIONS,
    "ActionDeclaration.commands": "the Commands action is not supported; use a CodeBuild project",
    "ActionDeclaration.outputVariables": "the Commands action is not supported",
    "ActionDeclaration.environmentVariables": "the Commands action is not supported",
}

# Action provider -> fields of its configuration.
PROVIDERS: Mapping[tuple[str, str], frozenset[str]] = {
    ("Source", "S3"): frozenset({"S3Bucket", "S3ObjectKey", "PollForSourceChanges"}),
    ("Build", "CodeBuild"): frozenset({"ProjectName", "PrimarySource", "EnvironmentVariables"}),
    ("Test", "CodeBuild"): frozenset({"ProjectName", "PrimarySource", "EnvironmentVariables"}),
    ("Deploy", "CloudFormation"): frozenset(
        {
            "ActionMode",
            "Capabilities",
            "ChangeSetName",
            "ParameterOverrides",
            "RoleArn",
            "StackName",
            "TemplateConfiguration",
            "TemplatePath",
        }
    ),
    ("Approval", "Manual"): frozenset({"CustomData", "ExternalEntityLink", "NotificationArn"}),
}
_NOT_SUPPORTED = "supported actions: S3, CodeBuild, CloudFormation, and approvals"


def reject_unsupported(declaration: Mapping[str, Any]) -> None:
    """Reject a declaration with an unsupported feature."""
    for path, reason in _unsupported(declaration):
        raise not_supported(path, reason)


def pipeline_rejection(declaration: Mapping[str, Any]) -> str | None:
    """Return why a template's pipeline is rejected; None if it is accepted."""
    return next((not_supported(path, reason).message for path, reason in _unsupported(declaration)), None)


def _unsupported(declaration: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _fields("PipelineDeclaration", declaration)
    for stage in declaration.get("stages", ()):
        yield from _fields("StageDeclaration", stage)
        for action in stage["actions"]:
            yield from _fields("ActionDeclaration", action)
            yield from _of_action(action)


def _fields(structure: str, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in given.items():
        reason = UNSUPPORTED.get(f"{structure}.{name}")
        if reason is not None and value not in (None, [], {}):
            yield f"{structure}.{name}", reason


def _of_action(action: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    kind = action["actionTypeId"]
    known = PROVIDERS.get((kind["category"], kind["provider"])) if kind["owner"] == "AWS" else None
    if known is None:
        yield f"{kind['category']} by {kind['owner']}'s {kind['provider']}", _NOT_SUPPORTED
        return
    if kind["provider"] == "CloudFormation" and action.get("outputArtifacts"):
        yield "CloudFormation.OutputFileName", "use the action's variables for the stack's outputs"
    for name in action.get("configuration", {}).keys() - known:
        yield f"{kind['provider']}.{name}", "this configuration field is not supported"
