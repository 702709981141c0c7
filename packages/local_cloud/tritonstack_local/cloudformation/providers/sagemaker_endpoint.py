"""AWS::SageMaker::Endpoint: the one resource that takes its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ProviderError, ResourceRequest
from tritonstack_local.cloudformation.providers.sagemaker_common import change_tags, name_of, unless_gone

_POLL_S = 0.2
_UPDATE = ("DeploymentConfig", "RetainAllVariantProperties", "RetainDeploymentConfig")
_BUSY = {"Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"}


class Endpoint(Provider):
    """Identifier: the endpoint's ARN, which is also what `Ref` answers.

    An endpoint that is InService on another configuration than the one asked for has rolled back: that is a
    failed update, whatever its status says.
    """

    type_name = "AWS::SageMaker::Endpoint"
    name_property = "EndpointName"
    properties: ClassVar = {
        "DeploymentConfig": Property(shape="sagemaker:UpdateEndpoint.DeploymentConfig"),
        "EndpointConfigName": Property(required=True),
        "EndpointName": Property(create_only=True),
        "ExcludeRetainedVariantProperties": Property(
            shape="sagemaker:UpdateEndpoint.ExcludeRetainedVariantProperties"
        ),
        "RetainAllVariantProperties": Property(shape="sagemaker:UpdateEndpoint.RetainAllVariantProperties"),
        "RetainDeploymentConfig": Property(shape="sagemaker:UpdateEndpoint.RetainDeploymentConfig"),
        "Tags": Property(shape="sagemaker:TagList"),
    }
    attribute_names = frozenset({"EndpointArn", "EndpointName"})

    def create(self, request: ResourceRequest) -> str:
        """Start the endpoint; `settle` waits for it."""
        made = request.client("sagemaker").create_endpoint(
            EndpointName=request.name("EndpointName", max_length=63, lower=True),
            **request.api("EndpointConfigName", "DeploymentConfig", "Tags"),
        )
        return str(made["EndpointArn"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Wait until the endpoint serves the configuration asked for."""
        name = name_of(request, "EndpointName", physical_id)
        found = _wait(request, name, cancelled=request.cancelled.is_set)
        wanted = request.properties["EndpointConfigName"]
        if found["EndpointStatus"] != "InService" or found["EndpointConfigName"] != wanted:
            reason = found.get("FailureReason") or f"the endpoint serves {found['EndpointConfigName']}"
            raise ProviderError(f"Endpoint {name} is {found['EndpointStatus']}: {reason}")

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Move the endpoint to another configuration, and change its tags."""
        name = name_of(request, "EndpointName", physical_id)
        change_tags(request, physical_id, previous)
        standing = _wait(request, name, cancelled=lambda: False)
        wanted = request.properties["EndpointConfigName"]
        if standing["EndpointConfigName"] == wanted and standing["EndpointStatus"] == "InService":
            return
        settings = request.api(*_UPDATE, "ExcludeRetainedVariantProperties")
        request.client("sagemaker").update_endpoint(EndpointName=name, EndpointConfigName=wanted, **settings)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Stop the endpoint and wait until it is gone."""
        name = name_of(request, "EndpointName", physical_id)
        with unless_gone():
            _wait(request, name, cancelled=lambda: False)
            request.client("sagemaker").delete_endpoint(EndpointName=name)
            found = _wait(request, name, cancelled=lambda: False)
            raise ProviderError(f"Endpoint {name} could not be deleted: it is {found['EndpointStatus']}")

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return ARN and name."""
        return {"EndpointArn": physical_id, "EndpointName": name_of(request, "EndpointName", physical_id)}


def _wait(request: ResourceRequest, name: str, *, cancelled: Callable[[], bool]) -> dict[str, Any]:
    """Return the endpoint once nothing is under way; ClientError when there is none."""
    sagemaker = request.client("sagemaker")
    while True:
        found: dict[str, Any] = sagemaker.describe_endpoint(EndpointName=name)
        if found["EndpointStatus"] not in _BUSY:
            return found
        if cancelled():
            raise ProviderError("Resource creation cancelled")
        request.pause(_POLL_S)
