"""AWS::SageMaker resources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from botocore import xform_name
from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code, aws_error_message
from tritonstack_local.cloudformation.providers.base import Property, Provider, ProviderError, ResourceRequest
from tritonstack_local.sagemaker.unsupported import template_rejection


def change_tags(request: ResourceRequest, arn: str, previous: ResourceRequest) -> None:
    """Set a resource's tags to the template's."""
    sagemaker = request.client("sagemaker")
    kept = {tag["Key"] for tag in request.properties.get("Tags", [])}
    gone = [tag["Key"] for tag in previous.properties.get("Tags", []) if tag["Key"] not in kept]
    if gone:
        sagemaker.delete_tags(ResourceArn=arn, TagKeys=gone)
    if request.properties.get("Tags"):
        sagemaker.add_tags(ResourceArn=arn, Tags=request.value("Tags"))


def name_of(request: ResourceRequest, prop: str, arn: str) -> str:
    """Return a resource's name: the template's, or the generated one at the end of its ARN.

    ARNs contain names in lower case, so only generated names can be read from them.
    """
    return str(request.properties.get(prop, arn.rsplit("/", 1)[1]))


def is_missing(error: ClientError) -> bool:
    """Return whether the error says that a resource does not exist; SageMaker has no code for it."""
    code, message = aws_error_code(error), aws_error_message(error)
    return code == "ValidationException" and "could not find" in message.lower()


@contextmanager
def ignoring_missing() -> Iterator[None]:
    """Run a deletion; a missing resource counts as success."""
    try:
        yield
    except ClientError as error:
        if not is_missing(error):
            raise


_POLL_S = 0.2
_UPDATE = ("DeploymentConfig", "RetainAllVariantProperties", "RetainDeploymentConfig")
_BUSY = {"Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"}


class EndpointProvider(Provider):
    """Identifier: the endpoint's ARN, also returned by `Ref`.

    An endpoint that is InService with another configuration has rolled back. AWS does not document whether
    CloudFormation takes that for a failure. Here it does not, because that is the dangerous case: its
    clean-up deletes what the update replaced, which serves. `rollback_fails_update` selects the other
    behavior.
    """

    def __init__(self, *, rollback_fails_update: bool = False) -> None:
        self.rollback_fails_update = rollback_fails_update

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
        """Create the endpoint; `settle` waits for it."""
        made = request.client("sagemaker").create_endpoint(
            EndpointName=request.name("EndpointName", max_length=63, lower=True),
            **request.api("EndpointConfigName", "DeploymentConfig", "Tags"),
        )
        return str(made["EndpointArn"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Wait until the endpoint is in service."""
        name = name_of(request, "EndpointName", physical_id)
        found = _wait(request, name, cancelled=request.cancelled.is_set)
        rolled_back = found["EndpointConfigName"] != request.properties["EndpointConfigName"]
        if found["EndpointStatus"] != "InService" or (rolled_back and self.rollback_fails_update):
            reason = found.get("FailureReason") or f"the endpoint serves {found['EndpointConfigName']}"
            raise ProviderError(f"Endpoint {name} is {found['EndpointStatus']}: {reason}")

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Update the endpoint's configuration and tags."""
        name = name_of(request, "EndpointName", physical_id)
        change_tags(request, physical_id, previous)
        current = _wait(request, name, cancelled=lambda: False)
        wanted = request.properties["EndpointConfigName"]
        if current["EndpointConfigName"] == wanted and current["EndpointStatus"] == "InService":
            return
        settings = request.api(*_UPDATE, "ExcludeRetainedVariantProperties")
        request.client("sagemaker").update_endpoint(EndpointName=name, EndpointConfigName=wanted, **settings)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the endpoint and wait until it is gone."""
        name = name_of(request, "EndpointName", physical_id)
        with ignoring_missing():
            _wait(request, name, cancelled=lambda: False)
            request.client("sagemaker").delete_endpoint(EndpointName=name)
            found = _wait(request, name, cancelled=lambda: False)
            raise ProviderError(f"Endpoint {name} could not be deleted: it is {found['EndpointStatus']}")

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return ARN and name."""
        return {"EndpointArn": physical_id, "EndpointName": name_of(request, "EndpointName", physical_id)}


def _wait(request: ResourceRequest, name: str, *, cancelled: Callable[[], bool]) -> dict[str, Any]:
    """Wait for operations in progress and return the endpoint; raise ClientError if it does not exist."""
    sagemaker = request.client("sagemaker")
    while True:
        found: dict[str, Any] = sagemaker.describe_endpoint(EndpointName=name)
        if found["EndpointStatus"] not in _BUSY:
            return found
        if cancelled():
            raise ProviderError("Resource creation cancelled")
        request.pause(_POLL_S)


class ImmutableProvider(Provider):
    """A resource of which only the tags can change. Identifier: its ARN, which is also what `Ref` returns."""

    create_only: ClassVar[tuple[str, ...]]

    def violations(self, logical_id: str, properties: Mapping[str, Any]) -> Iterator[str]:
        """Yield what SageMaker would reject, before any resource is created."""
        yield from super().violations(logical_id, properties)
        rejection = template_rejection(f"Create{self._kind}", properties)
        if rejection is not None:
            yield f"{logical_id}: {rejection}"

    def create(self, request: ResourceRequest) -> str:
        """Create the resource."""
        name = request.name(f"{self._kind}Name", max_length=63, lower=True)
        settings = request.api(*self.create_only, "Tags")
        created = self._call(request, "Create", name, **settings)
        return str(created[f"{self._kind}Arn"])

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Change the tags."""
        change_tags(request, physical_id, previous)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the resource."""
        with ignoring_missing():
            self._call(request, "Delete", name_of(request, f"{self._kind}Name", physical_id))

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return ARN and name."""
        name = f"{self._kind}Name"
        return {f"{self._kind}Arn": physical_id, name: name_of(request, name, physical_id)}

    @property
    def _kind(self) -> str:
        return self.type_name.rpartition("::")[2]

    def _call(self, request: ResourceRequest, verb: str, name: str, **settings: Any) -> dict[str, Any]:
        call = getattr(request.client("sagemaker"), xform_name(f"{verb}{self._kind}"))
        answer: dict[str, Any] = call(**{f"{self._kind}Name": name}, **settings)
        return answer


def _properties(kind: str, create_only: tuple[str, ...], *, required: str = "") -> dict[str, Property]:
    return {
        f"{kind}Name": Property(create_only=True),
        "Tags": Property(shape="sagemaker:TagList"),
        **{
            name: Property(
                shape=f"sagemaker:Create{kind}.{name}", create_only=True, required=name == required
            )
            for name in create_only
        },
    }


class EndpointConfigProvider(ImmutableProvider):
    """Endpoint configurations."""

    type_name = "AWS::SageMaker::EndpointConfig"
    name_property = "EndpointConfigName"
    create_only = (
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
    properties: ClassVar = _properties("EndpointConfig", create_only, required="ProductionVariants")
    attribute_names = frozenset({"EndpointConfigArn", "EndpointConfigName"})


class ModelProvider(ImmutableProvider):
    """Models."""

    type_name = "AWS::SageMaker::Model"
    name_property = "ModelName"
    create_only = (
        "Containers",
        "EnableNetworkIsolation",
        "ExecutionRoleArn",
        "InferenceExecutionConfig",
        "PrimaryContainer",
        "VpcConfig",
    )
    properties: ClassVar = _properties("Model", create_only)
    attribute_names = frozenset({"ModelArn", "ModelName"})
