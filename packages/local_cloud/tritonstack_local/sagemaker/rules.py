"""Fields that SageMaker rejects because they are not implemented, and fields accepted without effect.

fields.yaml lists them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tritonstack.base.yaml import load_yaml
from tritonstack_local.sagemaker.records import LEAST_OUTSTANDING, RANDOM
from tritonstack_local.service.errors import ServiceError, validation_exception


def not_found(kind: str, arn: str) -> ServiceError:
    """Return the error for a missing resource."""
    return validation_exception(f'Could not find {kind} "{arn}".')


def already_exists(kind: str, arn: str) -> ServiceError:
    """Return the error for a name in use."""
    return validation_exception(f'Cannot create already existing {kind} "{arn}".')


def not_supported(field: str, reason: str) -> ServiceError:
    """Return the error for an unsupported feature of SageMaker."""
    return validation_exception(f"The local cloud does not support {field}: {reason}.")


def invalid_invocation(message: str) -> ServiceError:
    """Return the runtime's error for an invalid request; its code differs from the control plane's."""
    return ServiceError("ValidationError", message)


def model_not_ready(target: str) -> ServiceError:
    """Return the error for a model that is still being loaded."""
    return ServiceError(
        "ModelNotReadyException",
        f"Model {target} is still being downloaded or loaded. Wait and try again.",
        status=429,
    )


_FIELDS: Mapping[str, Mapping[str, str]] = load_yaml(Path(__file__).with_name("fields.yaml").read_text())
ACCEPTED_WITHOUT_EFFECT = _FIELDS["accepted without effect"]
UNSUPPORTED = _FIELDS["rejected"]
NO_COMPONENTS = UNSUPPORTED["InvokeEndpoint.InferenceComponentName"]
_FOR_COMPONENTS = UNSUPPORTED["ProductionVariant.ManagedInstanceScaling"]
_NO_AWARENESS = UNSUPPORTED["InvokeEndpoint.PrefixAwareId"]
_ONE_CONTAINER = UNSUPPORTED["CreateModel.InferenceExecutionConfig"]

PUBLISH_FREQUENCIES_S = (10, 30, 60, 120, 180, 240, 300)
"""Documented values of MetricPublishFrequencyInSeconds; the service model has no list."""

_ECR_IMAGE = re.compile(r"\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/[a-z0-9._/-]+([:@][\w:.-]+)?")


def reject_unsupported(shape: str, fields: Mapping[str, Any]) -> None:
    """Reject a request with an unsupported field, at any depth."""
    for name, value in fields.items():
        reason = UNSUPPORTED.get(f"{shape}.{name}")
        if reason is not None and value not in (None, False, [], {}):
            raise not_supported(f"{shape}.{name}", reason)


def template_rejection(shape: str, fields: Mapping[str, Any]) -> str | None:
    """Return why a template's resource is rejected; None if it is accepted.

    `shape` is CreateModel or CreateEndpointConfig. Values unknown before the deployment are ignored.
    """
    try:
        _check_supported(shape, fields)
    except ServiceError as error:
        return error.message
    return None


def _check_supported(shape: str, fields: Mapping[str, Any]) -> None:
    reject_unsupported(shape, fields)
    _check_metrics(fields.get("MetricsConfig", {}))
    for inner, name in _STRUCTURES[shape]:
        items = fields.get(name, [])
        for structure in items if isinstance(items, list) else [items]:
            reject_unsupported(inner, structure)
            if inner == "ProductionVariant" and "ModelName" not in structure:
                raise not_supported("ProductionVariant without ModelName", _FOR_COMPONENTS)
            _check_routing(structure.get("RoutingConfig", {}))


_STRUCTURES = {
    "CreateModel": (("ContainerDefinition", "PrimaryContainer"), ("ContainerDefinition", "Containers")),
    "CreateEndpointConfig": (("ProductionVariant", "ProductionVariants"),),
}


def check_model(fields: Mapping[str, Any]) -> None:
    """Check a CreateModel request."""
    _check_supported("CreateModel", fields)
    containers = fields.get("Containers", [])
    if len(containers) > 1:
        raise not_supported("CreateModel.Containers with several containers", _ONE_CONTAINER)
    if bool(containers) == bool(fields.get("PrimaryContainer")):
        raise validation_exception("Exactly one of PrimaryContainer and Containers must be given.")
    _check_container(fields.get("PrimaryContainer") or containers[0])


def _check_container(container: Mapping[str, Any]) -> None:
    multi_model = container.get("Mode") == "MultiModel"
    if not multi_model:
        _check_multi_model_settings(container)
    image = container.get("Image")
    if image is None:
        raise validation_exception("ContainerDefinition.Image must be given.")
    if _ECR_IMAGE.fullmatch(image) is None:
        raise validation_exception(
            f'Using non-ECR image "{image}" without Vpc repository access mode is not supported.'
        )
    url = container.get("ModelDataUrl")
    if url is None and multi_model:
        raise validation_exception(
            "ContainerDefinition.ModelDataUrl must be given for a container in MultiModel mode."
        )
    if url is not None and not url.startswith("s3://"):
        raise not_supported(f"ContainerDefinition.ModelDataUrl={url}", "only s3:// URLs are supported")


def _check_multi_model_settings(container: Mapping[str, Any]) -> None:
    """Reject settings that make a single-model container serve many models."""
    if container.get("MultiModelConfig"):
        raise validation_exception("MultiModelConfig may be given for a container in MultiModel mode only.")
    if container.get("Environment", {}).get("SAGEMAKER_MULTI_MODEL") == "true":
        raise not_supported(
            "SAGEMAKER_MULTI_MODEL=true in ContainerDefinition.Environment",
            "use Mode MultiModel instead",
        )


def check_config(fields: Mapping[str, Any]) -> None:
    """Check a CreateEndpointConfig request."""
    _check_supported("CreateEndpointConfig", fields)
    variants = fields["ProductionVariants"]
    for number, variant in enumerate(variants):
        for name in ("InstanceType", "InitialInstanceCount"):
            if name not in variant:
                raise validation_exception(
                    f"ProductionVariants[{number}].{name} must be given for a variant with instances."
                )
    destination = fields.get("DataCaptureConfig", {}).get("DestinationS3Uri", "s3://")
    if not destination.startswith("s3://"):
        raise not_supported(
            f"DataCaptureConfig.DestinationS3Uri={destination}", "only s3:// URLs are supported"
        )
    names = [variant["VariantName"] for variant in variants]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise validation_exception(f"Two ProductionVariants have the VariantName {', '.join(twice)}.")


def _check_metrics(metrics: Mapping[str, Any]) -> None:
    frequency = metrics.get("MetricPublishFrequencyInSeconds", 60)
    # In a template, a number may be text or unknown.
    if isinstance(frequency, str | int) and str(frequency) not in map(str, PUBLISH_FREQUENCIES_S):
        raise validation_exception(
            f"MetricsConfig.MetricPublishFrequencyInSeconds {frequency} is not valid. "
            f"Valid values: {', '.join(map(str, PUBLISH_FREQUENCIES_S))}."
        )


def _check_routing(routing: Mapping[str, Any]) -> None:
    reject_unsupported("ProductionVariantRoutingConfig", routing)
    strategy = routing.get("RoutingStrategy", RANDOM)
    if strategy not in (RANDOM, LEAST_OUTSTANDING):
        raise not_supported(f"RoutingStrategy {strategy}", _NO_AWARENESS)
