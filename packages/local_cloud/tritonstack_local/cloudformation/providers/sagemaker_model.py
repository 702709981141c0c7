"""AWS::SageMaker::Model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest
from tritonstack_local.cloudformation.providers.sagemaker_common import change_tags, name_of, unless_gone
from tritonstack_local.sagemaker.refusals import refusal_of_template

_CREATE_ONLY = (
    "Containers",
    "EnableNetworkIsolation",
    "ExecutionRoleArn",
    "InferenceExecutionConfig",
    "PrimaryContainer",
    "VpcConfig",
)


class Model(Provider):
    """Identifier: the model's ARN, which is also what `Ref` answers. Nothing but its tags can change."""

    type_name = "AWS::SageMaker::Model"
    name_property = "ModelName"
    properties: ClassVar = {
        "ModelName": Property(create_only=True),
        "Tags": Property(shape="sagemaker:TagList"),
        **{name: Property(shape=f"sagemaker:CreateModel.{name}", create_only=True) for name in _CREATE_ONLY},
    }
    attribute_names = frozenset({"ModelArn", "ModelName"})

    def problems(self, logical_id: str, properties: Mapping[str, Any]) -> Iterator[str]:
        """Yield what SageMaker would refuse too, before anything is made."""
        yield from super().problems(logical_id, properties)
        refusal = refusal_of_template("CreateModel", properties)
        if refusal is not None:
            yield f"{logical_id}: {refusal}"

    def create(self, request: ResourceRequest) -> str:
        """Make the model."""
        name = request.name("ModelName", max_length=63, lower=True)
        made = request.client("sagemaker").create_model(ModelName=name, **request.api(*_CREATE_ONLY, "Tags"))
        return str(made["ModelArn"])

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Change the tags."""
        change_tags(request, physical_id, previous)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the model."""
        with unless_gone():
            request.client("sagemaker").delete_model(ModelName=name_of(request, "ModelName", physical_id))

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return ARN and name."""
        return {"ModelArn": physical_id, "ModelName": name_of(request, "ModelName", physical_id)}
