"""Publish the metrics of a multi-model endpoint with SageMaker's names, units, and dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tritonstack_local.cloudwatch.metrics import Datum

LOADING_NAMESPACE = "AWS/SageMaker"
INSTANCE_NAMESPACE = "/aws/sagemaker/Endpoints"

Publish = Callable[[Iterable[Datum]], None]


class Measures:
    """Publishes metrics of one instance's hosted models. Durations are in seconds."""

    def __init__(self, publish: Publish, *, endpoint: str, variant: str) -> None:
        self._publish = publish
        self._dimensions = {"EndpointName": endpoint, "VariantName": variant}

    def asked(self, *, loaded: bool) -> None:
        """Count a request as cache hit or miss; the average is the hit rate."""
        self._put("ModelCacheHit", 1.0 if loaded else 0.0, "None")

    def waited(self, interval_s: float) -> None:
        """Record a request's waiting time for its model."""
        self._put_interval("ModelLoadingWaitTime", interval_s)

    def downloaded(self, interval_s: float) -> None:
        """Record a download."""
        self._put_interval("ModelDownloadingTime", interval_s)

    def loaded(self, interval_s: float) -> None:
        """Record a load."""
        self._put_interval("ModelLoadingTime", interval_s)

    def unloaded(self, interval_s: float) -> None:
        """Record an unload."""
        self._put_interval("ModelUnloadingTime", interval_s)

    def counted(self, models: int) -> None:
        """Record the number of loaded models."""
        self._put("LoadedModelCount", models, "None", namespace=INSTANCE_NAMESPACE)

    def _put_interval(self, name: str, interval_s: float) -> None:
        self._put(name, interval_s * 1e6, "Microseconds")

    def _put(self, name: str, value: float, unit: str, *, namespace: str = LOADING_NAMESPACE) -> None:
        self._publish([Datum(namespace, name, self._dimensions, value, unit)])
