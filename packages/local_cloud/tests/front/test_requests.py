"""What InvokeEndpoint answers to requests in all their forms."""

from datetime import UTC, datetime, timedelta

import pytest

from packages.local_cloud.tests.front.conftest import NAME
from tritonstack_local import front

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
    "folded header": (400, {"unsigned": (("X-Long", "a\r\n b"),)}),
    "large header": (400, {"unsigned": (("X-Long", "a" * 40_000),)}),
    "wrong secret": (403, {"secret": "x" * 40}),
    "changed body": (403, {"sent": b"ASK"}),
    "changed path": (403, {"line": "POST /endpoints/other/invocations HTTP/1.1"}),
    "unsigned": (403, {"line": f"POST {PATH} HTTP/1.1\r\nX-Old:"}),
    "two signatures": (403, {"unsigned": (("Authorization", "AWS4-HMAC-SHA256 x"),)}),
    "from a web page": (403, {"unsigned": (("Origin", "https://example.com"),)}),
    "from another site": (403, {"unsigned": (("Sec-Fetch-Site", "cross-site"),)}),
    "two hosts": (400, {"unsigned": (("Host", "localhost"),)}),
    "encoded endpoint name": (400, {"path": "/endpoints/%6Fther/invocations"}),
    "encoded target model": (400, {"headers": {"X-Amzn-SageMaker-Target-Model": "a%2Fb.tar.gz"}}),
    "long attributes": (400, {"headers": {"X-Amzn-SageMaker-Custom-Attributes": "a" * 1025}}),
    "query": (400, {"path": f"{PATH}?a=b"}),
    "response stream of a missing endpoint": (400, {"path": "/endpoints/x/invocations-response-stream"}),
    "response stream of a model that fails": (424, {"path": STREAM_PATH, "body": b'["status=400", "no"]'}),
    "no length": (400, {"framing": ()}),
    "malformed chunk": (400, {"framing": CHUNKED, "sent": b"+3\r\nask\r\n0\r\n\r\n"}),
    "huge length": (400, {"framing": ("Content-Length: 9999999999",)}),
    "header without a colon": (400, {"framing": ("nonsense", LENGTH)}),
    "too large": (400, {"body": b"status=200" + b" " * (25 << 20)}),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_requests(endpoint, name):
    status, parts = REQUESTS[name]
    raw = endpoint.request(**parts)
    if name == "unsigned":
        raw = raw.replace(b"Authorization:", b"X-Authorization:")
    with endpoint.connect() as connection:
        connection.send(raw)
        answer = connection.response()
        assert answer.status == status, answer


def test_expired_signatures(endpoint, monkeypatch):
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    monkeypatch.setattr(
        "botocore.auth.get_current_datetime",
        lambda remove_tzinfo=True: hour_ago.replace(tzinfo=None) if remove_tzinfo else hour_ago,
    )
    answer = endpoint.ask()
    assert (answer.status, b"Signature expired" in answer.body) == (403, True)


def test_expect_continue(endpoint):
    with endpoint.connect() as connection:
        head, _, body = endpoint.request(unsigned=(("Expect", "100-continue"),)).partition(b"\r\n\r\n")
        connection.send(head + b"\r\n\r\n")
        assert connection.head() == (100, {})
        connection.send(body)
        assert connection.response().body == b"yes"


@pytest.mark.parametrize("sent", [b"plain", "ä".encode()])
def test_header_values_are_sent_as_they_were_received(sent):
    assert front._header_text(sent.decode("latin-1")).encode() == sent
