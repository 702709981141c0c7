"""Connections to a server, from threads and from an event loop: reuse, limits, streams, and broken servers.

How replies are read is tested with their parser, in tests/base.
"""

import asyncio
import contextlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tritonstack.triton import TritonRequestError, TritonTimeoutError, TritonUnreachableError
from tritonstack.triton.connections import AsyncConnectionPool, ConnectionPool, open_stream

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Name: a: b\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Name: a\r\n\r\n"
LATE = (b"HTTP/1.1 200 OK\r\n", *[b"A: b\r\n"] * 30, b"Content-Length: 0\r\n\r\n")
"""A reply that takes 0.3 s."""


class Scripted:
    """A server that sends the next pieces of its script for each request; None closes the connection."""

    def __init__(self, *script):
        self.script = list(script)
        self.connections = 0
        self.received = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        threading.Thread(target=self._accept, daemon=True).start()

    def connect(self):
        self.connections += 1
        return socket.create_connection(self._listener.getsockname())

    def _accept(self):
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(ConnectionError):
            while data := connection.recv(1 << 20):
                self.received.append(data)
                pieces = self.script.pop(0) if self.script else (OK,)
                for piece in pieces:
                    if piece is None:
                        return
                    connection.sendall(piece)
                    time.sleep(0.01)


def in_threads(server, rounds):
    pool = ConnectionPool(connect=server.connect)

    def send(fields):
        try:
            return pool.request(**fields)
        except TritonRequestError as error:
            return error

    with ThreadPoolExecutor(32) as threads:
        for fields in rounds:
            yield list(threads.map(send, fields))
            time.sleep(0.05)
    pool.close()


def in_a_loop(server, rounds):
    async def run():
        pool, results = AsyncConnectionPool(connect=server.connect), []
        for fields in rounds:
            requests = (pool.request(**one) for one in fields)
            results.append(await asyncio.gather(*requests, return_exceptions=True))
            await asyncio.sleep(0.05)  # the end of a connection is noticed
        pool.close()
        await asyncio.sleep(0)
        return results

    return asyncio.run(run())


@pytest.fixture(params=[in_threads, in_a_loop])
def send(request):
    """Send a request per time limit, one after the other; return the responses or errors."""

    def run(server, *limits, together=1, **changed):
        fields = {"method": "POST", "path": "/p", "body": b"body", "headers": {"A": "b"}, **changed}
        rounds = [[{**fields, "timeout_s": limit}] * together for limit in limits]
        return [answer for answers in request.param(server, rounds) for answer in answers]

    return run


def test_request_and_response(send):
    server = Scripted()
    (response,) = send(server, 10)
    assert (response.status, response.body) == (200, b"ok")
    assert response.headers == {"content-length": "2", "x-name": "a: b"}
    assert server.received == [
        b"POST /p HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: identity\r\nA: b\r\n"
        b"Content-Length: 4\r\n\r\nbody"
    ]


@pytest.mark.parametrize(
    "pieces",
    [(None,), (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", None), (b"nonsense\r\n\r\n",)],
    ids=range(3),
)
def test_broken_responses_are_errors_and_end_their_connection(send, pieces):
    server = Scripted(pieces)
    broken, response = send(server, 10, 10)
    assert type(broken) is TritonRequestError
    assert response.body == b"ok"
    assert server.connections == len(server.received) == 2, "a request was sent twice"


def test_connections_are_reused_by_concurrent_requests(send):
    server = Scripted()
    assert all(response.body == b"ok" for response in send(server, 10, 10, 10, together=32))
    assert server.connections <= 32


@pytest.mark.parametrize(
    "pieces",
    [
        (OK, None),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",),
        (b"HTTP/1.1 200 OK\r\n\r\no", b"k", None),
        (OK + b"more",),
        (OK, OK),
    ],
    ids=range(5),
)
def test_ended_and_desynchronized_connections_are_not_reused(send, pieces):
    server = Scripted(pieces)
    assert [response.body for response in send(server, 10, 10)] == [b"ok", b"ok"]
    assert server.connections == 2


@pytest.mark.parametrize(("method", "connections"), [("GET", 2), ("POST", 1)])
def test_threads_send_again_only_what_has_no_effects(method, connections):
    """The server closes the idle connection just as it is reused."""
    server = Scripted((OK,), (None,))
    pool = ConnectionPool(connect=server.connect)
    pool.request(method, "/p")
    if method == "GET":
        assert pool.request(method, "/p").body == b"ok"
    else:
        with pytest.raises(TritonRequestError):
            pool.request(method, "/p")
    pool.close()
    assert server.connections == connections


@pytest.mark.parametrize("first_s", [0.2, 10.0], ids=["shorter", "longer"])
def test_each_request_of_a_connection_has_its_own_time_limit(send, first_s):
    server = Scripted((OK,), LATE, LATE)
    began = time.monotonic()
    _, slow, late = send(server, first_s, 5, 0.1)
    assert slow.status == 200
    assert isinstance(late, TritonTimeoutError)
    assert time.monotonic() - began < 3
    assert server.connections == 1


def test_request_to_an_unreachable_server_was_not_received(send):
    server = Scripted()

    def connect():
        raise TritonUnreachableError("gone")

    server.connect = connect
    assert isinstance(send(server, 10)[0], TritonUnreachableError)


@pytest.mark.parametrize("value", ["a\r\nB: c", "a\nb", "a\rb", "a\0b"])
def test_headers_with_line_breaks_are_not_sent(send, value):
    server = Scripted()
    (failure,) = send(server, 10, headers={"A": value})
    assert isinstance(failure, TritonRequestError)
    assert server.received == []


def stream(*pieces, timeout_s=10.0):
    """Stream the response of a scripted server; return its status, its headers, and its parts."""

    async def exchange():
        call = {"connect": Scripted(pieces).connect, "body": b"b", "headers": {}, "timeout_s": timeout_s}
        response = await open_stream("POST", "/p", **call)
        try:
            return response.status, dict(response.headers), [part async for part in response.parts()]
        finally:
            response.close()

    return asyncio.run(exchange())


def test_the_parts_of_a_stream():
    status, headers, parts = stream(CHUNKED, b"3\r\none\r\n", b"3;x=y\r\nt", b"wo\r\n", b"0\r\n\r\n")
    assert (status, headers["x-name"], parts) == (200, "a", [b"one", b"two"])
    sized = b"HTTP/1.1 400 Bad\r\nContent-Length: 4\r\n\r\n"
    status, _, parts = stream(b"HTTP/1.1 100 Continue\r\n\r\n", sized, b"on", b"e!")
    assert (status, b"".join(parts)) == (400, b"one!")
    assert b"".join(stream(b"HTTP/1.0 200 OK\r\n\r\none", b"two", None)[2]) == b"onetwo"


@pytest.mark.parametrize(
    "pieces", [(None,), (CHUNKED, b"3\r\none\r\n", None), (b"SMTP ready\r\n\r\n",)], ids=range(3)
)
def test_broken_streams_are_errors(pieces):
    with pytest.raises(TritonRequestError):
        stream(*pieces)


@pytest.mark.parametrize("pieces", [(b"HTTP/1.1 200",), (CHUNKED, b"3\r\none\r\n")], ids=["head", "body"])
def test_the_limit_holds_for_the_whole_stream(pieces):
    with pytest.raises(TritonTimeoutError):
        stream(*pieces, timeout_s=0.2)


def test_a_stream_reads_no_faster_than_its_user():
    """A slow caller of a fast server must not fill this machine's memory."""
    size = 32 << 20
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size

    async def read():
        response = await open_stream(
            "POST", "/p", connect=Scripted((head, b"x" * size)).connect, body=b"", headers={}, timeout_s=30
        )
        parts = response.parts()
        held = [len(await anext(parts))]
        await asyncio.sleep(0.3)
        held.append(len(await anext(parts)))
        total = sum(held) + sum([len(part) async for part in parts])
        response.close()
        return max(held), total

    most, total = asyncio.run(read())
    assert total == size
    assert most <= 1 << 20
