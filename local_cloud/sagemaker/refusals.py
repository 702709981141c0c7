"""What this SageMaker refuses because it is not built, and what it accepts although nothing comes of it.

Every field of the service model that stands in neither table has its effect; a test holds the tables against
botocore's model, so that a new field there is noticed here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from local_cloud.sagemaker.faults import not_built, validation_exception

_ONE_MACHINE = "one Triton on this machine serves, whatever is asked for"
_ALL_AT_ONCE = "an update moves all traffic at once, when the new server is ready"
_ON_THE_MODEL = "inference components are not built yet; put it on the model"

# Field, as the service model names it below its operation -> why nothing comes of it here.
ACCEPTED_WITHOUT_EFFECT: dict[str, str] = {
    "CreateModel.ExecutionRoleArn": "the artifact is read with the account's own credentials",
    "CreateModel.VpcConfig": "the server has no network at all",
    "CreateModel.EnableNetworkIsolation": "the server never has a network, isolated or not",
    "ContainerDefinition.Image": "the installed Triton plays every image of an ECR repository",
    "ContainerDefinition.ContainerHostname": "there is one container and nobody calls it by name",
    "CreateEndpointConfig.KmsKeyId": "there is no volume to encrypt",
    "ProductionVariant.InstanceType": "fixed while scaled, but the machine is the one this cloud runs on",
    "ProductionVariant.InitialInstanceCount": f"shown and scaled, but {_ONE_MACHINE}",
    "ProductionVariant.InitialVariantWeight": "shown, but one variant takes all traffic",
    "ProductionVariant.VolumeSizeInGB": "the artifact is unpacked into this cloud's folder",
    "ProductionVariant.EnableSSMAccess": "there is no instance to log in to",
    "ProductionVariant.RoutingConfig": f"there is nothing to route among: {_ONE_MACHINE}",
    "ProductionVariant.InferenceAmiVersion": "there is no host driver to choose",
    "DeploymentConfig.BlueGreenUpdatePolicy": _ALL_AT_ONCE,
    "DeploymentConfig.RollingUpdatePolicy": _ALL_AT_ONCE,
    "DeploymentConfig.AutoRollbackConfiguration": "an update rolls back when its server fails, not on alarms",
    "UpdateEndpointWeightsAndCapacities.DesiredWeightsAndCapacities": f"shown at once, but {_ONE_MACHINE}",
}

# Field -> why it is refused.
REFUSED: dict[str, str] = {
    "CreateModel.InferenceExecutionConfig": "a model here is one container",
    "ContainerDefinition.ImageConfig": "there is no private registry to read from",
    "ContainerDefinition.ModelDataSource": "only ModelDataUrl, a compressed archive, is read",
    "ContainerDefinition.AdditionalModelDataSources": "only ModelDataUrl, a compressed archive, is read",
    "ContainerDefinition.ModelPackageName": "there is no model registry",
    "ContainerDefinition.InferenceSpecificationName": "there is no model registry",
    "ContainerDefinition.MultiModelConfig": "multi-model endpoints are not built yet",
    "ContainerDefinition.ContainerMetricsConfig": "container metrics are not published",
    "CreateEndpointConfig.DataCaptureConfig": "requests are not recorded",
    "CreateEndpointConfig.AsyncInferenceConfig": "asynchronous endpoints are not built yet",
    "CreateEndpointConfig.ExplainerConfig": "there is no explainer",
    "CreateEndpointConfig.ShadowProductionVariants": "shadow variants are not built yet",
    "CreateEndpointConfig.ExecutionRoleArn": "inference components are not built yet",
    "CreateEndpointConfig.VpcConfig": _ON_THE_MODEL,
    "CreateEndpointConfig.EnableNetworkIsolation": _ON_THE_MODEL,
    "CreateEndpointConfig.MetricsConfig": "metrics are not published yet",
    "CreateEndpointConfig.CrossRegionTrafficConfig": "there is no other region to send traffic to",
    "ProductionVariant.InstancePools": "there are no instances to pool",
    "ProductionVariant.VariantInstanceProvisionTimeoutInSeconds": "there are no instances to pool",
    "ProductionVariant.AcceleratorType": "there is no accelerator to attach",
    "ProductionVariant.CoreDumpConfig": "core dumps are not collected",
    "ProductionVariant.ServerlessConfig": "serverless endpoints are not built yet",
    "ProductionVariant.ManagedInstanceScaling": "inference components are not built yet",
    "ProductionVariant.CapacityReservationConfig": "there is no capacity to reserve",
    "ProductionVariant.AcceleratorPartitionLayouts": "there is no accelerator to divide",
    "DesiredWeightAndCapacity.ServerlessUpdateConfig": "serverless endpoints are not built yet",
    "InvokeEndpoint.TargetModel": "multi-model endpoints are not built yet",
    "InvokeEndpoint.TargetContainerHostname": "a model here is one container",
    "InvokeEndpoint.EnableExplanations": "there is no explainer",
    "InvokeEndpoint.InferenceComponentName": "inference components are not built yet",
    "InvokeEndpoint.SessionId": "stateful sessions are not built yet",
    "InvokeEndpoint.PrefixAwareId": f"there is nothing to route among: {_ONE_MACHINE}",
}

_ECR_IMAGE = re.compile(r"\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/[a-z0-9._/-]+([:@][\w:.-]+)?")


def refuse_unbuilt(shape: str, fields: Mapping[str, Any]) -> None:
    """Refuse the first field of a request, or of a structure in it, that asks for what is not built."""
    for name, value in fields.items():
        reason = REFUSED.get(f"{shape}.{name}")
        if reason is not None and value not in (None, False, [], {}):
            raise not_built(f"{shape}.{name}", reason)


def refuse_unbuilt_model(fields: Mapping[str, Any]) -> None:
    """Hold a CreateModel request against the tables."""
    refuse_unbuilt("CreateModel", fields)
    containers = fields.get("Containers", [])
    if len(containers) > 1:
        raise not_built("CreateModel.Containers with several containers", "a model here is one container")
    if bool(containers) == bool(fields.get("PrimaryContainer")):
        raise validation_exception("Exactly one of PrimaryContainer and Containers must be given.")
    container = fields.get("PrimaryContainer") or containers[0]
    refuse_unbuilt("ContainerDefinition", container)
    _refuse_container(container)


def _refuse_container(container: Mapping[str, Any]) -> None:
    if container.get("Mode", "SingleModel") != "SingleModel":
        raise not_built("ContainerDefinition.Mode=MultiModel", "multi-model endpoints are not built yet")
    if container.get("Environment", {}).get("SAGEMAKER_MULTI_MODEL") == "true":
        raise not_built(
            "SAGEMAKER_MULTI_MODEL=true in ContainerDefinition.Environment",
            "multi-model endpoints are not built yet",
        )
    image = container.get("Image")
    if image is None:
        raise validation_exception("ContainerDefinition.Image must be given.")
    if _ECR_IMAGE.fullmatch(image) is None:
        raise validation_exception(
            f'Using non-ECR image "{image}" without Vpc repository access mode is not supported.'
        )
    url = container.get("ModelDataUrl")
    if url is not None and not url.startswith("s3://"):
        raise not_built(f"ContainerDefinition.ModelDataUrl={url}", "artifacts are read from s3:// only")


def refuse_unbuilt_config(fields: Mapping[str, Any]) -> None:
    """Hold a CreateEndpointConfig request against the tables."""
    refuse_unbuilt("CreateEndpointConfig", fields)
    variants = fields["ProductionVariants"]
    if len(variants) > 1:
        raise not_built("several ProductionVariants", "an endpoint here has one variant")
    variant = variants[0]
    refuse_unbuilt("ProductionVariant", variant)
    if "ModelName" not in variant:
        raise not_built("ProductionVariant without ModelName", "inference components are not built yet")
    for name in ("InstanceType", "InitialInstanceCount"):
        if name not in variant:
            raise validation_exception(
                f"ProductionVariants[0].{name} must be given for a variant with instances."
            )
