"""An endpoint in the shared cloud, and raw signed requests to it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from packages.local_cloud.tests.conftest import Account
from packages.local_cloud.tests.sagemaker.cloud import IMAGE, a_variant, eventually, role_of
from tests.credentials import keys_of
from tritonstack_local.server import LocalCloud

__all__ = ["eventually"]
NAME = "e"


@dataclass
class Endpoint:
    """An endpoint of a new account; its server is the last one that was started."""

    account: Account
    cloud: LocalCloud
    server: Any

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.cloud.port

    @property
    def pool(self) -> Any:
        (fleet, _) = self.cloud._sagemaker._hosting.fleets(self.scope, NAME)
        return fleet.pools["AllTraffic"]

    @property
    def scope(self) -> Any:
        return next(
            scope
            for scope, record in self.cloud._sagemaker._store.endpoints.everywhere()
            if scope.account == self.account.account_id and record.name == NAME
        )

    def request(
        self,
        body: bytes = b"ask",
        *,
        path: str = f"/endpoints/{NAME}/invocations",
        headers: dict[str, str] | None = None,
        secret: str | None = None,
        unsigned: tuple[tuple[str, str], ...] = (),
        line: str | None = None,
        framing: tuple[str, ...] | None = None,
        sent: bytes | None = None,
    ) -> bytes:
        """Sign and write a request; `line`, `framing`, and `sent` replace its parts after signing."""
        keys = keys_of(self.account.endpoint_url, self.account.account_id)
        request = AWSRequest("POST", self.account.endpoint_url + path, data=body, headers=headers or {})
        credentials = Credentials(keys["aws_access_key_id"], secret or keys["aws_secret_access_key"])
        SigV4Auth(credentials, "sagemaker", self.account.region).add_auth(request)
        host = urlsplit(self.account.endpoint_url).netloc
        lines = [line or f"POST {path} HTTP/1.1"]
        lines += [
            f"{name}: {value}" for name, value in {"Host": host, **dict(request.headers.items())}.items()
        ]
        lines += [f"{name}: {value}" for name, value in unsigned]
        lines += (f"Content-Length: {len(body)}",) if framing is None else framing
        return "\r\n".join((*lines, "", "")).encode("latin-1") + (body if sent is None else sent)

    @property
    def runtime(self) -> Any:
        return self.account.client("sagemaker-runtime")

    def connect(self) -> Connection:
        return Connection(socket.create_connection(self.address, timeout=30))

    def ask(self, body: bytes = b"ask", **options: Any) -> Response:
        with self.connect() as connection:
            connection.send(self.request(body, **options))
            return connection.response()


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """A client connection that reads responses one by one."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._file = connection.makefile("rb")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def end(self) -> None:
        """Send nothing more."""
        self.socket.shutdown(socket.SHUT_WR)

    def response(self) -> Response:
        status, headers = self.head()
        return Response(status, headers, self._file.read(int(headers["content-length"])))

    def head(self) -> tuple[int, dict[str, str]]:
        status = int(self._file.readline().split()[1])
        headers = {}
        while line := self._file.readline().strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        return status, headers

    def chunks(self) -> bytes:
        """Read a chunked body."""
        body = b""
        while size := int(self._file.readline(), 16):
            body += self._file.read(size)
            assert self._file.readline() == b"\r\n"
        assert self._file.readline() == b"\r\n"
        return body

    def rest(self) -> bytes:
        """Read until the server closes the connection."""
        return self._file.read()

    def at_end(self) -> bool:
        return self._file.read(1) == b""


@pytest.fixture
def endpoint(account: Account, running_cloud: LocalCloud, fake_tritons: Any) -> Iterator[Endpoint]:
    sagemaker = account.client("sagemaker")
    container = {"Image": IMAGE, "Environment": {"FAKE_ANSWER": "yes"}}
    sagemaker.create_model(ModelName=NAME, ExecutionRoleArn=role_of(sagemaker), PrimaryContainer=container)
    sagemaker.create_endpoint_config(EndpointConfigName=NAME, ProductionVariants=[a_variant(NAME)])
    sagemaker.create_endpoint(EndpointName=NAME, EndpointConfigName=NAME)
    eventually(lambda: sagemaker.describe_endpoint(EndpointName=NAME)["EndpointStatus"] == "InService")
    found = Endpoint(account, running_cloud, None)
    found.server = found.pool.instances[0].container.server
    fake_tritons.released.clear()
    found.server.released = fake_tritons.released
    yield found
    fake_tritons.released.set()
    with suppress(ClientError):  # the test deleted it
        sagemaker.delete_endpoint(EndpointName=NAME)
