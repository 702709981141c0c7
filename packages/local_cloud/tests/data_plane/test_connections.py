"""Connections of the data plane: order, reuse, slow and vanishing clients, dying servers, and load."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time

import pytest

from packages.local_cloud.tests.data_plane.conftest import Connection, eventually
from tritonstack_local.access.verifier import BodyCheck, Payload
from tritonstack_local.data_plane.connections import READ_S, Connections, FrontConnection, Uploads, accept
from tritonstack_local.data_plane.heads import MAX_OTHER_HEAD, RequestHead, read_head
from tritonstack_local.service.event_loop import EventLoopThread


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


def test_a_client_may_close_its_side_after_its_request(endpoint):
    with endpoint.connect() as connection:
        connection.send(endpoint.request() + endpoint.request())
        connection.end()
        assert [connection.response().body for _ in range(2)] == [b"yes", b"yes"]
        assert connection.at_end()


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


def test_a_connection_may_be_handed_over_after_requests_to_the_data_plane(endpoint):
    with endpoint.connect() as connection:
        connection.send(endpoint.request() + endpoint.request(path="/endpoints/%65/invocations"))
        assert connection.response().body == b"yes"
        assert connection.response().status == 400


def test_large_bodies_are_verified_and_passed_on(endpoint):
    body = b"status=200" + b" " * (3 << 20)
    assert endpoint.ask(body).status == 200
    assert endpoint.ask(body, sent=body[:-1] + b"x").status == 403


HEAD = b"POST /endpoints/e/invocations HTTP/1.1\r\nHost: localhost:1\r\nContent-Length: 3"


def test_plain_heads_are_read():
    head = read_head(HEAD + b"\r\nX-A:\tb \r\nX-B:\r\nConnection: Close")
    assert (head.endpoint, head.length, head.keep_alive) == ("e", 3, False)
    assert head.headers["x-a"] == "b"
    assert head.headers["x-b"] == ""
    assert head.sent.header_pairs[0] == ("Host", "localhost:1")


@pytest.mark.parametrize(
    "head",
    [
        HEAD.replace(b"POST", b"GET"),
        HEAD.replace(b"1.1", b"1.0"),
        HEAD.replace(b"/e/", b"//"),
        HEAD.replace(b"/e/", b"/../"),
        HEAD.replace(b"/e/", b"/%65/"),
        HEAD.replace(b" HTTP", b"?a=b HTTP"),
        HEAD.replace(b"\r\n", b"\n"),
        HEAD.replace(b": 3", b" : 3"),
        HEAD.replace(b": 3", b": +3"),
        HEAD.replace(b": 3", b": "),
        HEAD.replace(b": 3", b": 3\0"),
        HEAD.replace(b"Content-Length", b"Length"),
        HEAD + b"\r\nContent-Length: 3",
        HEAD + b"\r\ncontent-length: 4",
        HEAD + b"\r\nHost: other",
        HEAD + b"\r\n folded",
        HEAD + b"\r\nTransfer-Encoding: chunked",
        HEAD + b"\r\nExpect: 200-ok",
        HEAD + b"\r\nUpgrade: h2c",
        HEAD + b"\r\nConnection: upgrade",
        HEAD + b"\r\nno colon",
        HEAD + b"\r\n: no name",
        HEAD + b"\r\nA: b\rc",
    ],
    ids=range(23),
)
def test_other_request_heads_are_handled_by_the_general_server(head):
    assert read_head(head) is None


CHECK = BodyCheck(None, "", "sagemaker", Payload())


class Front:
    """A listener whose requests are answered by a function of the test."""

    def __init__(self, serve):
        self.events = EventLoopThread("test")
        self.handed = []
        self.connections = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self._serve = serve
        self.open = Connections(100)
        asyncio.run_coroutine_threadsafe(accept(self.listener, self._begin), self.events.loop)

    def _begin(self, accepted):
        connection = FrontConnection(
            accepted,
            judge=self.judge,
            serve=self._serve,
            hand_over=self._take,
            uploads=Uploads(1 << 20),
            connections=self.open,
        )
        self.connections.append(connection)

    def judge(self, _request, _length):
        return CHECK

    def _take(self, connection, received):
        self.handed.append((connection, received))

    def connect(self):
        return Connection(socket.create_connection(self.address, timeout=30))

    def close(self):
        self.events.close()
        self.listener.close()


@pytest.fixture
def front():
    opened = []

    def make(serve):
        opened.append(Front(serve))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def respond(body):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


REQUEST = HEAD + b"\r\n\r\nask"


def test_client_that_does_not_read_delays_only_its_own_requests(front):
    served = []

    async def serve(head: RequestHead, body: bytes, check: BodyCheck) -> bytes:
        served.append(head.length)
        return respond(b"x" * (1 << 20))

    one = front(serve)
    with one.connect() as connection:
        connection.send(REQUEST * 100)
        time.sleep(0.5)
        assert 0 < len(served) < 50
        assert [len(connection.response().body) for _ in range(100)] == [1 << 20] * 100
    assert len(served) == 100


def test_later_requests_stay_in_the_socket(front):
    received, count = [], 100_000

    async def serve(head, body, check):
        received.append(len(one.connections[0]._received))
        return respond(b"ok")

    one = front(serve)
    with one.connect() as connection:

        def send():
            with contextlib.suppress(ConnectionError):
                connection.send(REQUEST * count)

        sender = threading.Thread(target=send)
        sender.start()
        assert all(connection.response().body == b"ok" for _ in range(2000))
        connection.socket.shutdown(socket.SHUT_RDWR)
        sender.join()
    assert max(received) < 512 * 1024


def test_a_handed_over_connection_keeps_every_byte(front):
    async def serve(head, body, check):
        return respond(body)

    one = front(serve)
    other = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with one.connect() as connection:
        connection.send(REQUEST + other[:10])
        assert connection.response().body == b"ask"
        assert not one.handed
        connection.send(other[10:])
        eventually(lambda: one.handed)
        handed, received = one.handed[0]
        with handed:
            assert received == other
            handed.sendall(respond(b"from the other side"))
        assert connection.response().body == b"from the other side"
        assert connection.at_end()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /endpoints/" + b"a" * MAX_OTHER_HEAD, 431),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nA: %b\r\n\r\n" % (b"a" * 70_000), 431),
        (b"GET /%b HTTP/1.1\r\n\r\n" % (b"a" * 70_000), 414),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"GET / nonsense\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"\x16\x03\x01\n\n", 400),
        (b"GET http://[ HTTP/1.1\r\n\r\n", 400),
        (b"GET / HT", 400),
        (HEAD.replace(b": 3", b": -3") + b"\r\n\r\n", 400),
        (HEAD + b"\r\nContent-Length: 3\r\n\r\n", 400),
        (HEAD + b"\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: %b\r\n\r\n" % (b"9" * 5000), 400),
    ],
    ids=range(16),
)
def test_malformed_heads_are_answered_here(front, head, status):
    one = front(None)
    with one.connect() as connection:
        connection.send(head)
        connection.end()
        answer = connection.response()
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert connection.at_end()
    assert not one.handed


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("closing", [False, True])
def test_a_client_that_reads_nothing_is_ended(front, streams, closing):
    size = 64 << 20

    async def pieces():
        for _ in range(2):
            yield b"x" * size

    async def serve(head, body, check):
        return pieces() if streams else b"x" * size

    one = front(serve)
    with one.connect() as connection:
        connection.send(REQUEST)
        eventually(lambda: one.connections and one.connections[0]._is_sending)
        if closing:
            one.events.loop.call_soon_threadsafe(one.connections[0].close)
        one.events.loop.call_soon_threadsafe(one.open.expire, time.monotonic() + READ_S - 1)
        one.events.loop.call_soon_threadsafe(one.open.expire, time.monotonic() + READ_S + 1)
        eventually(lambda: not one.open._open)
        with contextlib.suppress(ConnectionError):
            assert len(connection.rest()) < size


def test_closing_ends_idle_connections_at_once_and_busy_ones_after_their_response(front):
    released = asyncio.Event()

    async def serve(head, body, check):
        await released.wait()
        return respond(b"ok")

    one = front(serve)
    with one.connect() as busy, one.connect() as idle:
        busy.send(REQUEST)
        eventually(lambda: any(not connection.is_waiting for connection in one.connections))
        for connection in one.connections:
            one.events.loop.call_soon_threadsafe(connection.close)
        assert idle.at_end()
        one.events.loop.call_soon_threadsafe(released.set)
        assert busy.response().body == b"ok"
        assert busy.at_end()


def test_the_end_of_the_event_loop_ends_running_requests(front):
    async def serve(head, body, check):
        await asyncio.sleep(60)

    one = front(serve)
    with one.connect() as connection:
        connection.send(REQUEST)
        eventually(lambda: one.connections and not one.connections[0].is_waiting)
        one.events.close()
        assert connection.at_end()


def test_many_pipelined_denied_requests_are_each_answered(endpoint):
    raw = b"POST /endpoints/e/invocations HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"
    count = (200 << 10) // len(raw)
    with endpoint.connect() as connection:
        threading.Thread(target=connection.send, args=(raw * count + endpoint.request(),)).start()
        assert {connection.response().status for _ in range(count)} == {403}
        assert connection.response().body == b"yes"
