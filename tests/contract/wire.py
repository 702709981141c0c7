"""Send requests byte by byte, each on its own connection.

Triton answers the requests of a connection in one of its HTTP threads, and a load blocks its thread until it
ends: other connections of the same thread wait as long.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping

from tests.contract.bodies import JSON
from tests.contract.drivers import NO_HEADERS, Server
from tritonstack.base.http import ReplyReader
from tritonstack.triton import TritonResponse


def exchange(server: Server, *messages: bytes) -> TritonResponse | None:
    """What comes back for these very bytes, and None where the connection is closed instead."""
    with server.connect() as connection:
        connection.settimeout(30)
        connection.sendall(b"".join(messages))
        return read_answer(connection)


def read_answer(connection: socket.socket) -> TritonResponse | None:
    reader = ReplyReader()
    while data := connection.recv(reader.read_size):
        if (reply := reader.feed(data)) is not None:
            return TritonResponse(status=reply.status, headers=reply.headers, body=reply.body)
    return None


def post(*, kind: str = JSON, version: str = "1.1", **headers: str) -> bytes:
    lines = [f"POST /invocations HTTP/{version}", "Host: localhost", f"Content-Type: {kind}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def chunks(parts: Iterable[bytes]) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)]


def ask_afresh(
    server: Server,
    method: str,
    path: str,
    *,
    body: bytes = b"",
    headers: Mapping[str, str] = NO_HEADERS,
    patience_s: float = 0.3,
) -> TritonResponse | None:
    """One request on a new connection; None if the answer takes too long."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    with server.connect() as connection:
        connection.settimeout(patience_s)
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        try:
            return read_answer(connection)
        except TimeoutError:
            return None
