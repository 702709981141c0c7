"""AWS::SageMaker::EndpointConfig."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest
from tritonstack_local.cloudformation.providers.sagemaker_common import change_tags, name_of, unless_gone
from tritonstack_local.sagemaker.refusals import refusal_of_template

_CREATE_ONLY = (
    "AsyncInferenceConfig",
    "DataCaptureConfig",
    "EnableNetworkIsolation",
    "ExecutionRoleArn",
    "ExplainerConfig",
    "KmsKeyId",
    "MetricsConfig",
    "ProductionVariants",
    "ShadowProductionVariants",
    "VpcConfig",
)


class EndpointConfig(Provider):
    """Identifier: the configuration's ARN, which `Ref` answers too. Nothing but its tags can change."""

    type_name = "AWS::SageMaker::EndpointConfig"
    name_property = "EndpointConfigName"
    properties: ClassVar = {
        "EndpointConfigName": Property(create_only=True),
        "Tags": Property(shape="sagemaker:TagList"),
        **{
            name: Property(
                shape=f"sagemaker:CreateEndpointConfig.{name}",
                create_only=True,
                required=name == "ProductionVariants",
            )
            for name in _CREATE_ONLY
        },
    }
    attribute_names = frozenset({"EndpointConfigArn", "EndpointConfigName"})

    def problems(self, logical_id: str, properties: Mapping[str, Any]) -> Iterator[str]:
        """Yield what SageMaker would refuse too, before anything is made."""
        yield from super().problems(logical_id, properties)
        refusal = refusal_of_template("CreateEndpointConfig", properties)
        if refusal is not None:
            yield f"{logical_id}: {refusal}"

    def create(self, request: ResourceRequest) -> str:
        """Make the configuration."""
        name = request.name("EndpointConfigName", max_length=63, lower=True)
        made = request.client("sagemaker").create_endpoint_config(
            EndpointConfigName=name, **request.api(*_CREATE_ONLY, "Tags")
        )
        return str(made["EndpointConfigArn"])

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Change the tags."""
        change_tags(request, physical_id, previous)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the configuration."""
        with unless_gone():
            request.client("sagemaker").delete_endpoint_config(
                EndpointConfigName=name_of(request, "EndpointConfigName", physical_id)
            )

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return ARN and name."""
        return {
            "EndpointConfigArn": physical_id,
            "EndpointConfigName": name_of(request, "EndpointConfigName", physical_id),
        }
