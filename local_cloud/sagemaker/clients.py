"""boto3 clients for the embedded cloud itself: how its SageMaker reads from its S3 and writes to its logs."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

import boto3
from botocore.config import Config

from local_cloud.accounts import access_key_for
from local_cloud.sagemaker.records import Place

# Everything is on this machine; a proxy meant for the world outside must not get between.
_CONFIG = Config(
    s3={"addressing_style": "path"}, proxies={}, retries={"total_max_attempts": 2}, max_pool_connections=32
)


# Clients are for sharing between threads, the making of them is not.
_session = boto3.Session()
_making = threading.Lock()


def client(service: str, *, place: Place, endpoint_url: str) -> Any:
    """Return a client that acts in `place`; making one takes longer than most calls."""
    with _making:
        return _made(service, place, endpoint_url)


@lru_cache(maxsize=256)
def _made(service: str, place: Place, endpoint_url: str) -> Any:
    return _session.client(
        service,
        aws_access_key_id=access_key_for(place.account),
        aws_secret_access_key="embedded",  # noqa: S106  the embedded cloud checks no signature
        region_name=place.region,
        endpoint_url=endpoint_url,
        config=_CONFIG,
    )
