"""Describe one variant of an endpoint: a model on an instance type."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_sagemaker as sagemaker

from tritonstack.constructs.endpoint.triton_model import TritonModel
from tritonstack.constructs.model_data import TritonImage, instance_named
from tritonstack.constructs.monitoring.monitored import MonitoredVariant
from tritonstack.facts.drivers import chosen_ami
from tritonstack.facts.hardware import InstanceType
from tritonstack.files.endpoint.endpoint import MAIN, ServingOptions
from tritonstack.files.endpoint.scaling import Scaling

_Property = sagemaker.CfnEndpointConfig.ProductionVariantProperty


@dataclass(frozen=True)
class TritonVariant:
    """A model on instances of one type."""

    model: TritonModel
    instance_type: str
    """SageMaker instance type, for example ml.g5.xlarge."""
    name: str = MAIN
    """Never rename it: rollouts and scaling refer to it."""
    scaling: Scaling | None = None
    """Instance count; default: the endpoint's options."""
    weight: float = 1.0
    """Share of the requests, relative to the sum of all weights; for a shadow, relative to the main variant.
    """
    shadow: bool = False
    """Receives copies of requests; its answers are dropped."""
    volume_gb: int = 30
    """Disk space for the archive and its unpacked files; ignored on instances with local disks."""
    startup_timeout_s: int = 600
    """Time until a container is healthy; default: the endpoint's options."""
    download_timeout_s: int | None = 600
    """Time to fetch and unpack the data; default: the endpoint's options."""
    price_per_hour: float | None = None
    """Price per instance-hour, for dashboards."""

    @property
    def instance(self) -> InstanceType:
        """Return the instance type's record."""
        return instance_named(self.instance_type)

    @property
    def has_own_disks(self) -> bool:
        """Return whether instances have local disks: SageMaker then rejects a volume size and a volume
        key."""
        return self.instance.family.local_storage

    def scaled(self, options: ServingOptions) -> Scaling:
        """Return the scaling settings."""
        return self.scaling or options.scaling

    def monitored(self, options: ServingOptions) -> MonitoredVariant:
        """Return the record that metrics and scaling use."""
        return MonitoredVariant(
            name=self.name,
            instance=self.instance,
            scaling=self.scaled(options),
            shadow=self.shadow,
            price_per_hour=self.price_per_hour,
        )

    def started_within_s(self, options: ServingOptions) -> int:
        """Return the startup timeout of a new container."""
        return options.startup_timeout_s or self.startup_timeout_s

    def fetched_within_s(self, options: ServingOptions) -> int | None:
        """Return the download timeout of a new container; None if nothing is fetched in advance."""
        return options.download_timeout_s or self.download_timeout_s

    def to_property(self, options: ServingOptions) -> _Property:
        """Return the variant of the endpoint configuration."""
        # Inference components set model and timeouts themselves.
        alone = options.components is None
        return _Property(
            variant_name=self.name,
            model_name=self.model.name if alone else None,
            instance_type=self.instance_type,
            initial_instance_count=self.scaled(options).first_instances,
            initial_variant_weight=round(self.weight, 6) if alone else None,
            volume_size_in_gb=None if self.has_own_disks else self.volume_gb,
            container_startup_health_check_timeout_in_seconds=(
                self.started_within_s(options) if alone else None
            ),
            model_data_download_timeout_in_seconds=self.fetched_within_s(options) if alone else None,
            inference_ami_version=_host_image(self, options),
            managed_instance_scaling=None if alone else _managed(self.scaled(options)),
            routing_config=_routing(self, options),
        )


def _host_image(variant: TritonVariant, options: ServingOptions) -> str | None:
    """Return the inference AMI version, and with it the NVIDIA driver that the release needs, if known."""
    if variant.instance.family.accelerator != "gpu":
        return None
    image = variant.model.image
    if options.inference_ami or not isinstance(image, TritonImage):
        return options.inference_ami
    return chosen_ami(variant.instance, image.triton)


def _managed(scaling: Scaling) -> sagemaker.CfnEndpointConfig.ManagedInstanceScalingProperty:
    return sagemaker.CfnEndpointConfig.ManagedInstanceScalingProperty(
        status="ENABLED", min_instance_count=scaling.min_instances, max_instance_count=scaling.max_instances
    )


def _routing(
    variant: TritonVariant, options: ServingOptions
) -> sagemaker.CfnEndpointConfig.RoutingConfigProperty | None:
    """Route to the least loaded instance, if any instance can serve the request.

    Asynchronous requests are pulled, not routed. Multi-model requests go to the instance that has the model
    loaded.
    """
    if options.asynchronous or variant.model.multi_model:
        return None
    return sagemaker.CfnEndpointConfig.RoutingConfigProperty(routing_strategy="LEAST_OUTSTANDING_REQUESTS")
