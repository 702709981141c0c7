"""Create the hosted models of a deployment, and publish their count every minute."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from tritonstack_local.cloudwatch.metrics import Metrics
from tritonstack_local.sagemaker.multi_model.downloads import DownloadFolders
from tritonstack_local.sagemaker.multi_model.hosted import HostedModels
from tritonstack_local.sagemaker.multi_model.measures import Measures
from tritonstack_local.sagemaker.records import DeploymentPlan
from tritonstack_local.sagemaker.servers.limits import limits_of
from tritonstack_local.sagemaker.servers.server import MultiModelServer
from tritonstack_local.settings import REAL_MINUTE_S, TimeScale

# Lower bound of the reporting interval, at any time scale.
_SHORTEST_MINUTE_S = 0.5


class ModelHost:
    """Shared parts of all multi-model endpoints of a cloud."""

    def __init__(self, *, metrics: Metrics, time_scale: TimeScale, loaded_models: int | None) -> None:
        self._metrics = metrics
        self._loaded_models = loaded_models
        self._census = _Census(every_s=max(_SHORTEST_MINUTE_S, time_scale.lasting(REAL_MINUTE_S)))

    def hosted_models(
        self, plan: DeploymentPlan, *, server: MultiModelServer, s3: Any, folder: Path
    ) -> HostedModels | None:
        """Create the hosted models of a multi-model server; None for single-model servers."""
        if not plan.multi_model or plan.model_data_url is None:
            return None
        measures = Measures(
            partial(self._metrics.put, plan.scope), endpoint=plan.endpoint, variant=plan.variant
        )
        models = HostedModels(
            server=server,
            folders=DownloadFolders(s3=s3, url=plan.model_data_url, folder=folder),
            limits=limits_of(plan.instance_type, volume_gb=plan.volume_gb, loaded_models=self._loaded_models),
            measures=measures,
            keep=plan.model_cache,
        )
        self._census.add(models, measures)
        return models

    def close(self) -> None:
        """Stop counting."""
        self._census.close()


class _Census:
    """Publishes the number of loaded models per server: on changes, and once per minute."""

    def __init__(self, *, every_s: float) -> None:
        self._every_s = every_s
        self._counts: list[_Count] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, models: HostedModels, measures: Measures) -> None:
        """Add a server, until its models are closed."""
        with self._lock:
            self._counts.append(_Count(models, measures))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="census of models", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            with self._lock:
                counts = self._counts = [count for count in self._counts if not count.models.closed]
            for count in counts:
                count.publish()


class _Count:
    def __init__(self, models: HostedModels, measures: Measures) -> None:
        self.models = models
        self._measures = measures
        self._published: int | None = None
        self._published_at = 0.0

    def publish(self) -> None:
        count, now = self.models.loaded_count(), time.monotonic()
        if count != self._published or now - self._published_at >= REAL_MINUTE_S:
            self._measures.counted(count)
            self._published, self._published_at = count, now
