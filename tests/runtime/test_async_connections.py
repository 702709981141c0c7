"""The asynchronous connection pool: framing of responses, reuse, limits, and broken servers."""

import asyncio
import contextlib
import socket
import threading
import time
from unittest.mock import Mock

import pytest

from tritonstack.runtime import TritonRequestError, TritonTimeoutError, TritonUnreachableError
from tritonstack.runtime.async_connections import AsyncConnectionPool

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Name: a: b\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


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


def send(server, *, times=1, together=1, timeout_s=10.0, **request):
    """Send `times` rounds of concurrent requests; return the responses or errors of each round."""
    fields = {"method": "POST", "path": "/p", "body": b"body", "headers": {"A": "b"}, **request}

    async def rounds():
        pool = AsyncConnectionPool(connect=server.connect)
        results = []
        for _ in range(times):
            requests = (pool.request(timeout_s=timeout_s, **fields) for _ in range(together))
            results.append(await asyncio.gather(*requests, return_exceptions=True))
            await asyncio.sleep(0.05)  # the end of a connection is noticed
        pool.close()
        await asyncio.sleep(0)
        return results

    return asyncio.run(rounds())


@pytest.mark.parametrize(
    "pieces",
    [
        (OK,),
        tuple(bytes([byte]) for byte in OK),
        (CHUNKED + b"1;x=y\r\no", b"\r\n1\r\nk\r\n0\r\nT: 1\r\n", b"\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\no", b"k", None),
    ],
    ids=range(4),
)
def test_responses_are_read_in_every_framing(pieces):
    ((response,),) = send(Scripted(pieces))
    assert (response.status, response.body) == (200, b"ok")


def test_request_has_its_headers_and_content_length():
    server = Scripted()
    ((response,),) = send(server)
    assert response.headers == {"content-length": "2", "x-name": "a: b"}
    assert server.received == [
        b"POST /p HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: identity\r\nA: b\r\n"
        b"Content-Length: 4\r\n\r\nbody"
    ]


@pytest.mark.parametrize(
    "pieces",
    [
        (None,),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", None),
        (CHUNKED + b"2\r\nok\r\n", None),
        (b"nonsense\r\n\r\n",),
    ],
    ids=range(4),
)
def test_broken_responses_are_errors_and_end_their_connection(pieces):
    server = Scripted(pieces)
    (broken,), (response,) = send(server, times=2)
    assert type(broken) is TritonRequestError
    assert response.body == b"ok"
    assert server.connections == 2
    assert len(server.received) == 2, "a request was sent twice"


def test_connections_are_reused_by_any_number_of_concurrent_requests():
    server = Scripted()
    rounds = send(server, times=4, together=100)
    assert all(response.body == b"ok" for responses in rounds for response in responses)
    assert server.connections == 100


@pytest.mark.parametrize(
    "pieces",
    [
        (OK, None),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",),
        (OK + b"more",),
        (OK, OK),
    ],
    ids=range(5),
)
def test_ended_and_desynchronized_connections_are_not_reused(pieces):
    server = Scripted(pieces)
    (first,), (second,) = send(server, times=2)
    assert (first.body, second.body) == (b"ok", b"ok")
    assert server.connections == 2


def test_connection_whose_end_was_just_read_is_not_used():
    """The event loop has read the end, and has not yet told the pool."""
    server = Scripted()

    async def request_after_the_end():
        pool = AsyncConnectionPool(connect=server.connect)
        request = {"method": "POST", "path": "/p", "body": b"", "headers": {}, "timeout_s": 10.0}
        await pool.request(**request)
        pool._idle[-1]._transport.close()
        response = await pool.request(**request)
        pool.close()
        return response

    assert asyncio.run(request_after_the_end()).body == b"ok"
    assert server.connections == 2


@pytest.mark.parametrize("first_s", [0.05, 10.0], ids=["shorter", "longer"])
def test_each_request_of_a_connection_has_its_own_time_limit(first_s):
    late = (b"HTTP/1.1 200 OK\r\n", *[b"A: b\r\n"] * 30, b"Content-Length: 0\r\n\r\n")
    server = Scripted((OK,), late, late)

    async def rounds():
        pool = AsyncConnectionPool(connect=server.connect)
        fields = {"method": "POST", "path": "/", "body": b"", "headers": {}}
        await pool.request(timeout_s=first_s, **fields)
        slow = await pool.request(timeout_s=5, **fields)  # longer than the first limit of 0.05 s
        began = time.monotonic()
        with pytest.raises(TritonTimeoutError):
            await pool.request(timeout_s=0.1, **fields)
        pool.close()
        return slow, time.monotonic() - began

    slow, elapsed = asyncio.run(rounds())
    assert slow.status == 200
    assert 0.1 <= elapsed < 0.3
    assert server.connections == 1


def test_request_to_an_unreachable_server_was_not_received():
    server = Scripted()
    server.connect = Mock(side_effect=TritonUnreachableError("gone"))
    ((failure,),) = send(server)
    assert isinstance(failure, TritonUnreachableError)


@pytest.mark.parametrize("value", ["a\r\nB: c", "a\nb", "a\0b"])
def test_headers_with_line_breaks_are_not_sent(value):
    server = Scripted()
    ((failure,),) = send(server, headers={"A": value})
    assert isinstance(failure, TritonRequestError)
    assert server.received == []
