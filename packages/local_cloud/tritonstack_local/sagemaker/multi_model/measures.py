"""Publish the metrics of a multi-model endpoint with SageMaker's names, units, and dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tritonstack_local.cloudwatch.metrics import Datum

LOADING_NAMESPACE = "AWS/SageMaker"
INSTANCE_NAMESPACE = "/aws/sagemaker/Endpoints"

Publish = Callable[[Iterable[Datum]], None]


class Measures:
    """What the hosted models of one instance tell of themselves. Intervals are given in seconds."""

    def __init__(self, publish: Publish, *, endpoint: str, variant: str) -> None:
        self._publish = publish
        self._dimensions = {"EndpointName": endpoint, "VariantName": variant}

    def asked(self, *, loaded: bool) -> None:
        """A request came, for a model that was loaded or was not; the average is the share of hits."""
        self._put("ModelCacheHit", 1.0 if loaded else 0.0, "None")

    def waited(self, interval_s: float) -> None:
        """A request has waited for its model."""
        self._put_interval("ModelLoadingWaitTime", interval_s)

    def downloaded(self, interval_s: float) -> None:
        """A model was brought from S3 to the volume."""
        self._put_interval("ModelDownloadingTime", interval_s)

    def loaded(self, interval_s: float) -> None:
        """The container has loaded a model."""
        self._put_interval("ModelLoadingTime", interval_s)

    def unloaded(self, interval_s: float) -> None:
        """The container has unloaded a model."""
        self._put_interval("ModelUnloadingTime", interval_s)

    def counted(self, models: int) -> None:
        """So many models are loaded."""
        self._put("LoadedModelCount", models, "None", namespace=INSTANCE_NAMESPACE)

    def _put_interval(self, name: str, interval_s: float) -> None:
        self._put(name, interval_s * 1e6, "Microseconds")

    def _put(self, name: str, value: float, unit: str, *, namespace: str = LOADING_NAMESPACE) -> None:
        self._publish([Datum(namespace, name, self._dimensions, value, unit)])
