"""Asks Application Auto Scaling what SageMaker asks it before an update: whether a variant is registered."""

from __future__ import annotations

from collections.abc import Callable

from local_cloud.sagemaker.clients import client
from local_cloud.sagemaker.records import Place

IsScaled = Callable[[Place, str, str], bool]
"""Whether a variant of an endpoint is a scalable target: place, endpoint, variant."""


def ask_autoscaling(*, endpoint_url: str) -> IsScaled:
    """Ask the Application Auto Scaling at an address."""

    def is_scaled(place: Place, endpoint: str, variant: str) -> bool:
        autoscaling = client("application-autoscaling", place=place, endpoint_url=endpoint_url)
        found = autoscaling.describe_scalable_targets(
            ServiceNamespace="sagemaker",
            ResourceIds=[f"endpoint/{endpoint}/variant/{variant}"],
            ScalableDimension="sagemaker:variant:DesiredInstanceCount",
        )
        return bool(found["ScalableTargets"])

    return is_scaled
