"""boto3 clients of this cloud, for its own services."""

from __future__ import annotations

import threading
from typing import Any

import boto3
from botocore.config import Config

from tritonstack_local.access.keys import CloudSecret
from tritonstack_local.scope import Scope

# All requests stay on this machine; ignore proxy settings.
_CONFIG = Config(
    s3={"addressing_style": "path"}, proxies={}, retries={"total_max_attempts": 2}, max_pool_connections=32
)
# In regions older than 2014, boto3 presigns with version 2 by default.
_S3 = _CONFIG.merge(Config(signature_version="s3v4"))


class Clients:
    """Caches one client per service and scope: creating one takes longer than most calls.

    Clients are thread-safe; their creation is not.
    """

    def __init__(self, *, endpoint_url: str, secret: CloudSecret) -> None:
        self.endpoint_url = endpoint_url
        self._secret = secret
        self._lock = threading.Lock()
        self._session = boto3.session.Session()
        self._made: dict[tuple[str, Scope], Any] = {}

    def client(self, service: str, scope: Scope) -> Any:
        """Return a client for a scope."""
        with self._lock:
            if (service, scope) not in self._made:
                key = self._secret.account_key(scope.account)
                self._made[service, scope] = self._session.client(
                    service,
                    region_name=scope.region,
                    endpoint_url=self.endpoint_url,
                    aws_access_key_id=key.key_id,
                    aws_secret_access_key=key.secret,
                    config=_S3 if service == "s3" else _CONFIG,
                )
            return self._made[service, scope]
