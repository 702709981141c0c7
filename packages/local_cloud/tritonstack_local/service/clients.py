"""boto3 clients of this cloud, for its own services."""

from __future__ import annotations

import threading
from typing import Any

import boto3
from botocore.config import Config

from tritonstack_local.identity.scope import Scope
from tritonstack_local.signatures.keys import CloudSecret
from tritonstack_local.state.idempotency import name_step

# Everything is on this machine; a proxy meant for the world outside must not get between.
_CONFIG = Config(
    s3={"addressing_style": "path"}, proxies={}, retries={"total_max_attempts": 2}, max_pool_connections=32
)


class Clients:
    """Makes each client once for a service and place: making one takes longer than most calls.

    Clients are for sharing between threads, the making of them is not.
    """

    def __init__(self, *, endpoint_url: str, secret: CloudSecret) -> None:
        self.endpoint_url = endpoint_url
        self._secret = secret
        self._lock = threading.Lock()
        self._session = boto3.session.Session()
        self._session.events.register("before-sign", name_step)
        self._made: dict[tuple[str, Scope], Any] = {}

    def client(self, service: str, scope: Scope) -> Any:
        """Return a client that acts in a place."""
        with self._lock:
            if (service, scope) not in self._made:
                key = self._secret.account_key(scope.account)
                self._made[service, scope] = self._session.client(
                    service,
                    region_name=scope.region,
                    endpoint_url=self.endpoint_url,
                    aws_access_key_id=key.key_id,
                    aws_secret_access_key=key.secret,
                    config=_CONFIG,
                )
            return self._made[service, scope]
