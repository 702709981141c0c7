"""An endpoint under load: an HTTP server answers for it, and the other services are moto's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.cli.conftest import account, json_results
from tests.client.light.wire import WireRequest, WireServer
from tests.conftest import project
from tests.operate.conftest import cloud
from tests.operate.invoke.invoked_site import Site
from tritonstack import Session
from tritonstack.operate.shared.aws import Cloud

__all__ = ["account", "cloud", "json_results", "project"]

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


@dataclass(frozen=True)
class LoadedCloud(Cloud):
    """The endpoint is an HTTP server; the rest is moto's."""

    def client(self, service: str) -> Any:
        if service == "sagemaker-runtime":
            return super().client(service)
        return boto3.client(service, region_name="us-east-1")


@pytest.fixture
def site(tmp_path: Path, account: str, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, account, monkeypatch)


@pytest.fixture
def served(site: Site) -> Iterator[Callable[[Callable[[WireRequest], object]], WireServer]]:
    """Start the endpoint; `answer` gets each request and returns a reply."""
    servers: list[WireServer] = []

    def start(answer: Callable[[WireRequest], object]) -> WireServer:
        servers.append(WireServer(answer))

        def cloud(_: Session, spec: Any, **__: Any) -> Cloud:
            variables = {**KEYS, "AWS_ENDPOINT_URL": servers[-1].url}
            return LoadedCloud(spec.account, spec.region, variables)

        site.patch.setattr(Session, "cloud", cloud)
        return servers[-1]

    yield start
    for server in servers:
        server.stop()
