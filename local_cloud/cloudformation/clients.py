"""boto3 clients for this very cloud: providers act through the same API as everybody else."""

from __future__ import annotations

import threading
from typing import Any

import boto3
from botocore.config import Config

from local_cloud.accounts import access_key_for

_CONFIG = Config(
    retries={"max_attempts": 1}, s3={"addressing_style": "path"}, max_pool_connections=16, proxies={}
)


class Clients:
    """Makes each client once per service, account and region."""

    def __init__(self, *, endpoint_url: str) -> None:
        self._endpoint_url = endpoint_url
        self._lock = threading.Lock()
        self._session = boto3.session.Session()
        self._made: dict[tuple[str, str, str], Any] = {}

    def client(self, service: str, *, account: str, region: str) -> Any:
        """Return a client that acts in an account and region."""
        key = (service, account, region)
        with self._lock:
            if key not in self._made:
                self._made[key] = self._session.client(
                    service,
                    region_name=region,
                    endpoint_url=self._endpoint_url,
                    aws_access_key_id=access_key_for(account),
                    aws_secret_access_key="embedded",  # noqa: S106 - the embedded cloud checks no signature
                    config=_CONFIG,
                )
            return self._made[key]
