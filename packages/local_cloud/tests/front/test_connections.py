"""Connections: order, reuse, slow and vanishing clients, dying servers, and malformed heads."""

import contextlib
import threading

import pytest

from packages.local_cloud.tests.front.conftest import eventually
from tritonstack_local import front


def test_denied_and_invalid_requests_leave_the_connection_usable(endpoint):
    bad = (
        endpoint.request(secret="x" * 40),
        endpoint.request(unsigned=(("Origin", "https://example.com"),)),
        endpoint.request(headers={"X-Amzn-SageMaker-Target-Variant": "other"}),
        endpoint.request(path="/endpoints/other/invocations"),
    )
    with endpoint.connect() as connection:
        for raw, status in zip(bad, (403, 403, 400, 400), strict=True):
            connection.send(raw)
            assert connection.response().status == status
            connection.send(endpoint.request())
            assert connection.response().body == b"yes"


def test_pipelined_requests_are_answered_in_order(endpoint, fake_tritons):
    bodies = (b"hold", b"ask", b"status=418", b"ask")
    with endpoint.connect() as connection:
        connection.send(b"".join(endpoint.request(body) for body in bodies))
        assert endpoint.server.holding.wait(30)
        connection.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.socket.recv(1)
        connection.socket.settimeout(30)
        fake_tritons.released.set()
        answers = [connection.response() for _ in bodies]
    assert [answer.status for answer in answers] == [200, 200, 424, 200]
    assert [answer.body for answer in answers[:2]] == [b"held", b"yes"]


def test_a_slow_client_delays_no_other(endpoint):
    with endpoint.connect() as slow:
        for byte in endpoint.request():
            slow.send(bytes([byte]))
            if byte == ord("\n"):
                assert endpoint.ask().status == 200
        assert slow.response().body == b"yes"


def test_client_that_disconnects_mid_request_frees_its_instance(endpoint, fake_tritons):
    with endpoint.connect() as connection:
        connection.send(endpoint.request(b"hold"))
        assert endpoint.server.holding.wait(30)
    assert endpoint.pool.requests == 1
    fake_tritons.released.set()
    eventually(lambda: endpoint.pool.requests == 0)
    assert endpoint.ask().status == 200


def test_a_server_that_dies_during_a_request(endpoint):
    with endpoint.connect() as connection:
        connection.send(endpoint.request(b"die"))
        died = connection.response()
        assert died.status == 500
        assert died.headers["x-amzn-errortype"] == "InternalFailure"
        connection.send(endpoint.request())  # it waits for the restarted server
        assert connection.response().body == b"yes"


def test_two_hundred_requests_run_at_once(endpoint, fake_tritons):
    connections = [endpoint.connect() for _ in range(200)]
    raw = endpoint.request(b"hold")
    for connection in connections:
        connection.send(raw)
    eventually(lambda: endpoint.pool.requests == 200)
    fake_tritons.released.set()
    assert {connection.response().body for connection in connections} == {b"held"}
    for connection in connections:
        connection.close()


def test_large_bodies_are_verified_and_passed_on(endpoint):
    body = b"status=200" + b" " * (3 << 20)
    assert endpoint.ask(body).status == 200
    assert endpoint.ask(body, sent=body[:-1] + b"x").status == 403


def test_many_pipelined_denied_requests_are_each_answered(endpoint):
    raw = b"POST /endpoints/e/invocations HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"
    count = (200 << 10) // len(raw)
    with endpoint.connect() as connection:
        threading.Thread(target=connection.send, args=(raw * count + endpoint.request(),)).start()
        assert {connection.response().status for _ in range(count)} == {403}
        assert connection.response().body == b"yes"


HEAD = b"POST /endpoints/e/invocations HTTP/1.1\r\nHost: localhost:1\r\nContent-Length: 3"


@pytest.mark.parametrize(
    "head",
    [
        b"POST /endpoints/" + b"a" * (128 << 10),
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"GET / HTTP/1.1\r\nA: %b\r\n\r\n" % (b"a" * 70_000),
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / nonsense\r\n\r\n",
        b"\x16\x03\x01\n\n",
        b"GET http://[ HTTP/1.1\r\n\r\n",
        HEAD.replace(b": 3", b": -3") + b"\r\n\r\n",
        HEAD.replace(b": 3", b" : 3") + b"\r\n\r\n",
        HEAD + b"\r\nContent-Length: 3\r\n\r\n",
        HEAD + b"\r\nTransfer-Encoding: chunked\r\n\r\n",
        HEAD + b"\r\nA: b\rc\r\n\r\n",
        HEAD + b"\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: %b\r\n\r\n" % (b"9" * 5000),
    ],
    ids=range(15),
)
def test_malformed_heads_end_the_connection(endpoint, head):
    with endpoint.connect() as connection:
        connection.send(head)
        assert connection.response().status == 400
        assert connection.at_end()


def test_a_client_that_reads_nothing_is_ended(endpoint, monkeypatch):
    monkeypatch.setattr(front, "READ_S", 0.2)
    size = 64 << 20
    with endpoint.connect() as connection:
        connection.send(endpoint.request(b"size=%d" % size))
        eventually(lambda: not endpoint.cloud._front.connections.busy)
        with contextlib.suppress(ConnectionError):
            assert len(connection.rest()) < size


def test_closing_ends_idle_connections_at_once_and_busy_ones_after_their_response(endpoint, fake_tritons):
    connections = endpoint.cloud._front.connections
    with endpoint.connect() as busy, endpoint.connect() as idle:
        busy.send(endpoint.request(b"hold"))
        assert endpoint.server.holding.wait(30)
        endpoint.cloud._front._runtime.events.loop.call_soon_threadsafe(connections.close)
        assert idle.at_end()
        fake_tritons.released.set()
        assert busy.response().body == b"held"
        assert busy.at_end()
