"""AWS::SageMaker resources."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code, aws_error_message
from tritonstack_local.cloudformation.providers.base import Provider, ProviderError, ResourceRequest
from tritonstack_local.sagemaker.rules import template_rejection


class _SageMaker(Provider):
    """A resource whose tags can change. Identifier: its ARN, which is also what `Ref` returns."""

    def target(self, request: ResourceRequest, physical_id: str) -> dict[str, str]:
        return {self.identifier: self.name_of(request, physical_id)}

    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        return {**super().arguments(request), **request.api("Tags")}

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Do nothing: the resource is complete when it is created."""

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        super().update(request, physical_id, previous)
        super().settle(request, physical_id)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        with _ignoring_missing():
            super().delete(request, physical_id)


class _Immutable(_SageMaker):
    """Models and endpoint configurations, of which only the tags can change."""

    def violations(self, logical_id: str, properties: Mapping[str, Any]) -> Iterator[str]:
        """Yield what SageMaker would reject, before any resource is created."""
        yield from super().violations(logical_id, properties)
        rejection = template_rejection(f"Create{self.type_name.rpartition('::')[2]}", properties)
        if rejection is not None:
            yield f"{logical_id}: {rejection}"


@contextmanager
def _ignoring_missing() -> Iterator[None]:
    """Run a deletion; a missing resource counts as success. SageMaker has no code for it."""
    try:
        yield
    except ClientError as error:
        missing = "could not find" in aws_error_message(error).lower()
        if aws_error_code(error) != "ValidationException" or not missing:
            raise


_POLL_S = 0.2
_BUSY = {"Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"}


@dataclass(frozen=True, kw_only=True)
class _Endpoint(_SageMaker):
    """Endpoints, of which all but the name can change.

    An endpoint that is InService with another configuration has rolled back. AWS does not document whether
    CloudFormation takes that for a failure. Here it does not, because that is the dangerous case: its
    clean-up deletes what the update replaced, which serves. `rollback_fails_update` selects the other
    behavior.
    """

    rollback_fails_update: bool = False

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        name = self.name_of(request, physical_id)
        endpoint = _wait(request, name, cancelled=request.cancelled.is_set)
        rolled_back = endpoint["EndpointConfigName"] != request.properties["EndpointConfigName"]
        if endpoint["EndpointStatus"] != "InService" or (rolled_back and self.rollback_fails_update):
            reason = endpoint.get("FailureReason") or f"the endpoint serves {endpoint['EndpointConfigName']}"
            raise ProviderError(f"Endpoint {name} is {endpoint['EndpointStatus']}: {reason}")

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        super().update(request, physical_id, previous)
        name = self.name_of(request, physical_id)
        current = _wait(request, name, cancelled=lambda: False)
        config = request.properties["EndpointConfigName"]
        if current["EndpointConfigName"] == config and current["EndpointStatus"] == "InService":
            return
        settings = request.api("EndpointConfigName", "DeploymentConfig", *self.unsent)
        request.client("sagemaker").update_endpoint(EndpointName=name, **settings)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        name = self.name_of(request, physical_id)
        with _ignoring_missing():
            _wait(request, name, cancelled=lambda: False)
            request.client("sagemaker").delete_endpoint(EndpointName=name)
            endpoint = _wait(request, name, cancelled=lambda: False)
            raise ProviderError(f"Endpoint {name} could not be deleted: it is {endpoint['EndpointStatus']}")


def _wait(request: ResourceRequest, name: str, *, cancelled: Callable[[], bool]) -> dict[str, Any]:
    """Wait for operations in progress and return the endpoint; raise ClientError if it does not exist."""
    while True:
        endpoint: dict[str, Any] = request.client("sagemaker").describe_endpoint(EndpointName=name)
        if endpoint["EndpointStatus"] not in _BUSY:
            return endpoint
        if cancelled():
            raise ProviderError("Resource creation cancelled")
        time.sleep(_POLL_S)


CLASSES: Mapping[str, type[Provider]] = {
    "AWS::SageMaker::Endpoint": _Endpoint,
    "AWS::SageMaker::EndpointConfig": _Immutable,
    "AWS::SageMaker::Model": _Immutable,
}
