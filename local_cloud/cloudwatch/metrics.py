"""Metrics as this cloud's own services publish them, brought to CloudWatch, where everybody reads them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from local_cloud.clients import Clients
from local_cloud.places import Place

# How long values wait for others to travel with, and how many travel together (CloudWatch takes 1000).
FLUSH_S = 0.5
_BATCH = 500

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Datum:
    """One measured value, or the same one several times."""

    namespace: str
    name: str
    dimensions: Mapping[str, str]
    value: float
    unit: str = "None"
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    count: int = 1

    def as_api(self) -> dict[str, Any]:
        """Return it as PutMetricData takes it."""
        return {
            "MetricName": self.name,
            "Dimensions": [{"Name": name, "Value": value} for name, value in self.dimensions.items()],
            "Timestamp": self.time,
            "Values": [self.value],
            "Counts": [self.count],
            "Unit": self.unit,
        }


class Metrics:
    """Takes values from any thread and brings them to CloudWatch soon after."""

    def __init__(self, *, clients: Clients) -> None:
        self._clients = clients
        self._waiting: list[tuple[Place, Datum]] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()

    def put(self, place: Place, data: Iterable[Datum]) -> None:
        """Publish values."""
        with self._lock:
            self._waiting.extend((place, datum) for datum in data)

    def close(self) -> None:
        """End; what still waits is published nowhere, as its readers end too."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(FLUSH_S):
            with self._lock:
                waiting, self._waiting = self._waiting, []
            waiting.sort(key=_address)
            for (place, namespace), group in groupby(waiting, key=_address):
                self._send(place, namespace, (datum.as_api() for _, datum in group))

    def _send(self, place: Place, namespace: str, data: Iterable[dict[str, Any]]) -> None:
        cloudwatch, left = self._clients.client("cloudwatch", place), iter(data)
        try:
            while batch := list(islice(left, _BATCH)):
                cloudwatch.put_metric_data(Namespace=namespace, MetricData=batch)
        except (ClientError, BotoCoreError) as fault:
            log.warning("metrics of %s in %s are lost: %s", namespace, place, fault)


def _address(item: tuple[Place, Datum]) -> tuple[Place, str]:
    return item[0], item[1].namespace
