"""What scaling, alarms and dashboards have to know of an endpoint: its names in metrics, and its machines."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.hardware import InstanceType
from catalog.scaling import Scaling


@dataclass(frozen=True)
class WatchedVariant:
    """One variant, as CloudWatch and Application Auto Scaling name it."""

    name: str
    instance: InstanceType
    scaling: Scaling
    shadow: bool = False
    price_per_hour: float | None = None
    """What an hour of one machine costs, where the environment's file says so."""


@dataclass(frozen=True)
class Watched:
    """One endpoint, as CloudWatch and Application Auto Scaling name it."""

    endpoint_name: str
    variants: tuple[WatchedVariant, ...]
    """All variants, the main one first and a shadow last."""
    multi_model: bool = False
    component: str | None = None
    """The name of its inference component, where it has one: invocations are counted under that."""
    log_group_name: str = ""
    """Where its containers write."""
