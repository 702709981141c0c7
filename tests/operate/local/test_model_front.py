"""The server of `tritonstack dev` answers programs, and no web pages."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

import pytest

from tritonstack.operate.local.model_front import ModelFront


@pytest.fixture
def port() -> Iterator[int]:
    front = ModelFront(0)
    yield int(front.url.rpartition(":")[2])
    front.close()


def status_of(port: int, method: str, headers: dict[str, str]) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    path, body = ("/ping", None) if method == "GET" else ("/invocations", b"{}")
    connection.request(method, path, body, {name: value.format(port=port) for name, value in headers.items()})
    reply = connection.getresponse()
    content = json.load(reply)
    connection.close()
    return reply.status, content["error"]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        pytest.param({"Host": "evil.example:{port}"}, "Host header is evil.example", id="rebinding"),
        pytest.param({"Host": "127.0.0.1:1"}, "Host header is 127.0.0.1:1", id="other-port"),
        pytest.param({"Origin": "https://evil.example"}, "web pages", id="origin"),
        pytest.param({"Origin": "null"}, "web pages", id="sandboxed"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, "web pages", id="no-cors"),
        pytest.param({"Sec-Fetch-Site": "same-site"}, "web pages", id="other-port-page"),
    ],
)
def test_a_web_page_gets_no_answer(port: int, method: str, headers: dict[str, str], reason: str) -> None:
    status, message = status_of(port, method, headers)
    assert status == 403
    assert reason in message


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("headers", [{}, {"Host": "localhost:{port}"}, {"Host": "[::1]:{port}"}])
def test_a_program_gets_an_answer(port: int, method: str, headers: dict[str, str]) -> None:
    status, message = status_of(port, method, headers)
    assert status == 503
    assert "no version" in message
