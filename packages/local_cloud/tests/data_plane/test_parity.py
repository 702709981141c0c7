"""Every request gets the same response from the data plane and from the general server."""

import re
import socket
from datetime import UTC, datetime, timedelta

import pytest

from packages.local_cloud.tests.data_plane.conftest import NAME, Connection

_ID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(rb"\d{8}T\d{6}Z")
CHUNKED = ("Transfer-Encoding: chunked",)
PATH = f"/endpoints/{NAME}/invocations"
STREAM_PATH = f"{PATH}-response-stream"
LENGTH = "Content-Length: 3"

REQUESTS = {
    "valid": (200, {}),
    "with all headers": (
        200,
        {
            "headers": {
                "Content-Type": "application/json",
                "X-Amzn-SageMaker-Custom-Attributes": "trace=1",
                "X-Amzn-SageMaker-Target-Variant": "AllTraffic",
                "X-Amzn-SageMaker-Inference-Id": "id-1",
            }
        },
    ),
    "latin-1 attributes": (400, {"headers": {"X-Amzn-SageMaker-Custom-Attributes": "caf\u00e9"}}),
    "connection: close": (200, {"unsigned": (("Connection", "close"),)}),
    "HTTP/1.0": (200, {"line": f"POST {PATH} HTTP/1.0"}),
    "chunked body": (200, {"framing": CHUNKED, "sent": b"2\r\nas\r\n1\r\nk\r\n0\r\n\r\n"}),
    "blanks around a header": (200, {"framing": ("Content-Length:   3",)}),
    "folded header": (200, {"unsigned": (("X-Long", "a\r\n b"),)}),
    "large header": (200, {"unsigned": (("X-Long", "a" * 20_000),)}),
    "model error": (424, {"body": b"status=404"}),
    "model failure": (424, {"body": b"status=500"}),
    "time limit": (424, {"body": b"slow"}),
    "wrong secret": (403, {"secret": "x" * 40}),
    "changed body": (403, {"sent": b"ASK"}),
    "changed path": (403, {"line": "POST /endpoints/other/invocations HTTP/1.1"}),
    "unsigned": (403, {"line": f"POST {PATH} HTTP/1.1\r\nX-Old:"}),
    "two signatures": (403, {"unsigned": (("Authorization", "AWS4-HMAC-SHA256 x"),)}),
    "two dates": (403, {"unsigned": (("X-Amz-Date", "20200101T000000Z"),)}),
    "from a web page": (403, {"unsigned": (("Origin", "https://example.com"),)}),
    "from another site": (403, {"unsigned": (("Sec-Fetch-Site", "cross-site"),)}),
    "two hosts": (403, {"unsigned": (("Host", "localhost"),)}),
    "encoded endpoint name": (400, {"path": "/endpoints/%6Fther/invocations"}),
    "invalid endpoint name": (400, {"path": "/endpoints/not_a_name/invocations"}),
    "long endpoint name": (400, {"path": f"/endpoints/{'a' * 64}/invocations"}),
    "missing endpoint": (400, {"path": "/endpoints/other/invocations"}),
    "missing variant": (400, {"headers": {"X-Amzn-SageMaker-Target-Variant": "other"}}),
    "target model": (400, {"headers": {"X-Amzn-SageMaker-Target-Model": "m.tar.gz"}}),
    "encoded target model": (400, {"headers": {"X-Amzn-SageMaker-Target-Model": "a%2Fb.tar.gz"}}),
    "component": (400, {"headers": {"X-Amzn-SageMaker-Inference-Component": "c"}}),
    "long attributes": (400, {"headers": {"X-Amzn-SageMaker-Custom-Attributes": "a" * 1025}}),
    "query": (200, {"path": f"{PATH}?a=b"}),
    "response stream of a missing endpoint": (400, {"path": "/endpoints/x/invocations-response-stream"}),
    "response stream of a model that fails": (424, {"path": STREAM_PATH, "body": b'["status=400", "no"]'}),
    "no length": (403, {"framing": ()}),
    "malformed chunk": (400, {"framing": CHUNKED, "sent": b"+3\r\nask\r\n0\r\n\r\n"}),
    "incomplete body": (400, {"framing": ("Content-Length: 10",)}),
    "huge length": (400, {"framing": ("Content-Length: 9999999999",)}),
    "header without a colon": (403, {"framing": ("nonsense", LENGTH)}),
    "blank before a colon": (403, {"framing": ("Content-Length : 3",)}),
    "too large": (400, {"body": b"status=200" + b" " * (25 << 20)}),
}


def general(endpoint, raw):
    """Send a request to the general server alone."""
    ours, theirs = socket.socketpair()
    ours.settimeout(30)
    endpoint.cloud._general.take_over(theirs, b"")
    return _exchanged(ours, raw)


def front(endpoint, raw):
    return _exchanged(socket.create_connection(endpoint.address, timeout=30), raw)


def _exchanged(connection, raw):
    """Return the status line's code, the significant headers, and the body of a response."""
    with Connection(connection) as client:
        client.send(raw)
        client.socket.shutdown(socket.SHUT_WR)
        received = client._file.read()
    head, _, body = received.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    for name in ("server", "date", "connection", "x-amzn-requestid", "content-length"):
        headers.pop(name, None)
    return int(lines[0].split()[1]), headers, _TIME.sub(b"T", _ID.sub(b"ID", body))


@pytest.mark.parametrize("name", REQUESTS)
def test_both_servers_respond_alike(endpoint, name):
    status, parts = REQUESTS[name]
    raw = endpoint.request(**parts)
    if name == "unsigned":
        raw = raw.replace(b"Authorization:", b"X-Authorization:")
    ours = front(endpoint, raw)
    assert ours[0] == status, ours
    assert ours == general(endpoint, raw)


def test_expired_signatures(endpoint, monkeypatch):
    monkeypatch.setattr("botocore.auth.get_current_datetime", _an_hour_ago)
    raw = endpoint.request()
    ours = front(endpoint, raw)
    assert ours[0] == 403
    assert b"Signature expired" in ours[2]
    assert ours == general(endpoint, raw)


def _an_hour_ago(remove_tzinfo=True):
    moment = datetime.now(UTC) - timedelta(hours=1)
    return moment.replace(tzinfo=None) if remove_tzinfo else moment


def test_line_endings_without_carriage_returns(endpoint):
    raw = endpoint.request().replace(b"\r\n", b"\n")
    assert front(endpoint, raw) == general(endpoint, raw)


def test_expect_continue(endpoint):
    with endpoint.connect() as connection:
        head, _, body = endpoint.request(unsigned=(("Expect", "100-continue"),)).partition(b"\r\n\r\n")
        connection.send(head + b"\r\n\r\n")
        assert connection._file.readline() == b"HTTP/1.1 100 Continue\r\n"
        connection.send(body)
        received = connection._file.read()
    assert b"HTTP/1.1 200 " in received
    assert received.endswith(b"yes")
