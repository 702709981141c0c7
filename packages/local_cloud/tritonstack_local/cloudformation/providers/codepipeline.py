"""AWS::CodePipeline::Pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    Property,
    Provider,
    ResourceRequest,
    api_property,
    ignoring,
)
from tritonstack_local.cloudformation.templates.shapes import shape_named, to_api
from tritonstack_local.codepipeline.refusals import ACCEPTED_WITHOUT_EFFECT, refusal_of

# Property -> field of the declaration, and its shape.
_FIELDS = {
    "ArtifactStore": ("artifactStore", "ArtifactStore"),
    "ArtifactStores": ("artifactStores", "ArtifactStoreMap"),
    "ExecutionMode": ("executionMode", "ExecutionMode"),
    "PipelineType": ("pipelineType", "PipelineType"),
    "RoleArn": ("roleArn", "RoleArn"),
    "Stages": ("stages", "PipelineStageDeclarationList"),
    "Triggers": ("triggers", "PipelineTriggerDeclarationList"),
    "Variables": ("variables", "PipelineVariableDeclarationList"),
}
_REQUIRED = {"RoleArn", "Stages"}


class PipelineProvider(Provider):
    """Identifier: the pipeline's name, also returned by `Ref`. It runs when created, as on AWS."""

    type_name = "AWS::CodePipeline::Pipeline"
    name_property = "Name"
    properties: ClassVar = {
        "Name": Property(create_only=True),
        "RestartExecutionOnUpdate": Property(),
        "Tags": Property(shape="codepipeline:TagList"),
        **{
            name: api_property(
                f"codepipeline:{shape}",
                required=name in _REQUIRED,
                reason=ACCEPTED_WITHOUT_EFFECT.get(f"PipelineDeclaration.{field}"),
            )
            for name, (field, shape) in _FIELDS.items()
        },
    }
    attribute_names = frozenset({"Version"})
    volatile_attributes = frozenset({"Version"})

    def problems(self, logical_id: str, properties: Mapping[str, Any]) -> Iterator[str]:
        """Yield what CodePipeline would reject, before any resource is created."""
        yield from super().problems(logical_id, properties)
        refusal = refusal_of(_declared(properties))
        if refusal is not None:
            yield f"{logical_id}: {refusal}"

    def create(self, request: ResourceRequest) -> str:
        """Create the pipeline."""
        name = request.name("Name", max_length=100)
        request.client("codepipeline").create_pipeline(
            pipeline={"name": name, **_declared(request.properties)}, tags=request.value("Tags") or []
        )
        return name

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Write the next version, change tags, and start an execution if requested."""
        codepipeline = request.client("codepipeline")
        declared = _declared(request.properties)
        if declared != _declared(previous.properties):
            codepipeline.update_pipeline(pipeline={"name": physical_id, **declared})
            if request.flag("RestartExecutionOnUpdate"):
                codepipeline.start_pipeline_execution(name=physical_id)
        kept = {tag["Key"] for tag in request.properties.get("Tags", [])}
        gone = [tag["Key"] for tag in previous.properties.get("Tags", []) if tag["Key"] not in kept]
        if gone:
            codepipeline.untag_resource(resourceArn=_arn(request, physical_id), tagKeys=gone)
        if request.properties.get("Tags"):
            codepipeline.tag_resource(resourceArn=_arn(request, physical_id), tags=request.value("Tags"))

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the pipeline."""
        with ignoring("PipelineNotFoundException"):
            request.client("codepipeline").delete_pipeline(name=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the version."""
        found = request.client("codepipeline").get_pipeline(name=physical_id)["pipeline"]
        return {"Version": str(found["version"])}


def _declared(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        field: to_api(properties[name], shape_named(f"codepipeline:{shape}"))
        for name, (field, shape) in _FIELDS.items()
        if name in properties
    }


def _arn(request: ResourceRequest, name: str) -> str:
    return f"arn:aws:codepipeline:{request.stack.region}:{request.stack.account}:{name}"
