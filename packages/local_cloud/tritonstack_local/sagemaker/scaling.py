"""Asks Application Auto Scaling what SageMaker asks it before an update: whether a variant is registered."""

from __future__ import annotations

from collections.abc import Callable

from tritonstack_local.clients import Clients
from tritonstack_local.places import Place

IsScaled = Callable[[Place, str, str], bool]
"""Whether a variant of an endpoint is a scalable target: place, endpoint, variant."""


def ask_autoscaling(clients: Clients) -> IsScaled:
    """Ask this cloud's Application Auto Scaling."""

    def is_scaled(place: Place, endpoint: str, variant: str) -> bool:
        autoscaling = clients.client("application-autoscaling", place)
        found = autoscaling.describe_scalable_targets(
            ServiceNamespace="sagemaker",
            ResourceIds=[f"endpoint/{endpoint}/variant/{variant}"],
            ScalableDimension="sagemaker:variant:DesiredInstanceCount",
        )
        return bool(found["ScalableTargets"])

    return is_scaled
