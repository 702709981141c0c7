"""One variant of an endpoint: a model on a kind of machine, and how SageMaker is told of it."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_sagemaker as sagemaker

from tritonstack.constructs.endpoint.triton_model import TritonModel
from tritonstack.constructs.model_data import TritonImage, instance_named
from tritonstack.constructs.monitoring.monitored import WatchedVariant
from tritonstack.reference.drivers import chosen_ami
from tritonstack.reference.hardware import InstanceType
from tritonstack.spec.endpoints.endpoint import MAIN, ServingOptions
from tritonstack.spec.endpoints.scaling import Scaling

_Property = sagemaker.CfnEndpointConfig.ProductionVariantProperty


@dataclass(frozen=True)
class TritonVariant:
    """A model on machines of one type."""

    model: TritonModel
    instance_type: str
    """SageMaker instance type, for example ml.g5.xlarge."""
    name: str = MAIN
    """Never renamed: rollouts and scaling refer to it."""
    scaling: Scaling | None = None
    """How many machines there are; what the endpoint's options say if not given."""
    weight: float = 1.0
    """Its part of the requests, against the sum of all weights; of a shadow, against the main one's."""
    shadow: bool = False
    """Gets copies of requests; its answers are dropped."""
    volume_gb: int = 30
    """What the data and its unpacked files fill; of no account on machines with disks of their own."""
    startup_timeout_s: int = 600
    """How long a container may take until it is healthy, unless the endpoint's options say."""
    download_timeout_s: int | None = 600
    """How long fetching and unpacking the data may take, unless the endpoint's options say."""
    price_per_hour: float | None = None
    """What an hour of one machine costs, for dashboards."""

    @property
    def instance(self) -> InstanceType:
        """The machine behind the instance type."""
        return instance_named(self.instance_type)

    @property
    def has_own_disks(self) -> bool:
        """SageMaker takes neither a volume size nor a volume key for such machines."""
        return self.instance.family.local_storage

    def scaled(self, options: ServingOptions) -> Scaling:
        """How many machines there are."""
        return self.scaling or options.scaling

    def watched(self, options: ServingOptions) -> WatchedVariant:
        """How metrics and scaling name it."""
        return WatchedVariant(
            name=self.name,
            instance=self.instance,
            scaling=self.scaled(options),
            shadow=self.shadow,
            price_per_hour=self.price_per_hour,
        )

    def started_within_s(self, options: ServingOptions) -> int:
        """How long a new container may take until it is healthy."""
        return options.startup_timeout_s or self.startup_timeout_s

    def fetched_within_s(self, options: ServingOptions) -> int | None:
        """How long a new container's data may take to arrive; None where nothing is fetched in advance."""
        return options.download_timeout_s or self.download_timeout_s

    def to_property(self, options: ServingOptions) -> _Property:
        """The variant as an endpoint's configuration lists it."""
        # Inference components bring model and timeouts themselves.
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
    """The host's image, and with it its NVIDIA driver: one that fits the release, where that is known."""
    if variant.instance.family.accelerator != "gpu":
        return None
    image = variant.model.image
    if options.inference_ami or not isinstance(image, TritonImage):
        return options.inference_ami
    return chosen_ami(variant.instance, image.triton)


def _managed(scaling: Scaling) -> sagemaker.CfnEndpointConfig.ManagedInstanceScalingProperty:
    return sagemaker.CfnEndpointConfig.ManagedInstanceScalingProperty(
        status="ENABLED",
        min_instance_count=scaling.min_instances,
        max_instance_count=scaling.max_instances,
    )


def _routing(
    variant: TritonVariant, options: ServingOptions
) -> sagemaker.CfnEndpointConfig.RoutingConfigProperty | None:
    """To the machine with the least to do, where a request may go to any machine.

    Requests of an asynchronous endpoint are fetched, not sent; those of a multi-model endpoint go to the
    machine that has their model loaded.
    """
    if options.asynchronous or variant.model.multi_model:
        return None
    return sagemaker.CfnEndpointConfig.RoutingConfigProperty(routing_strategy="LEAST_OUTSTANDING_REQUESTS")
