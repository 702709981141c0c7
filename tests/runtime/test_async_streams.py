"""Responses that are read while they arrive: framing, limits, and broken servers."""

import asyncio

import pytest

from tests.runtime.test_async_connections import Scripted
from tritonstack.runtime import TritonRequestError, TritonTimeoutError
from tritonstack.runtime.async_streams import open_stream

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Name: a\r\n\r\n"


def read(*pieces, timeout_s=10.0, headers=None):
    """Read the response of a scripted server; return its status, its headers, and its parts."""

    async def exchange():
        stream = await open_stream(
            "POST",
            "/p",
            connect=Scripted(pieces).connect,
            body=b"b",
            headers=headers or {},
            timeout_s=timeout_s,
        )
        try:
            return stream.status, dict(stream.headers), [part async for part in stream.parts()]
        finally:
            stream.close()

    return asyncio.run(exchange())


def test_chunks_are_parts():
    status, headers, parts = read(CHUNKED, b"3\r\none\r\n", b"3;x=y\r\nt", b"wo\r\n", b"0\r\n\r\n")
    assert (status, headers["x-name"], parts) == (200, "a", [b"one", b"two"])


def test_bodies_without_chunks():
    sized = b"HTTP/1.1 400 Bad\r\nContent-Length: 4\r\n\r\n"
    status, _, parts = read(b"HTTP/1.1 100 Continue\r\n\r\n", sized, b"on", b"e!")
    assert (status, b"".join(parts)) == (400, b"one!")
    assert read(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")[2] == []
    assert b"".join(read(b"HTTP/1.0 200 OK\r\n\r\none", b"two", None)[2]) == b"onetwo"


@pytest.mark.parametrize(
    "pieces",
    [
        (None,),
        (b"HTTP/1.1 200 OK\r\nContent-", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\none", None),
        (CHUNKED, b"3\r\none\r\n", None),
        (b"SMTP ready\r\n\r\n",),
    ],
)
def test_broken_responses_are_errors(pieces):
    with pytest.raises(TritonRequestError):
        read(*pieces)


@pytest.mark.parametrize("pieces", [(b"HTTP/1.1 200",), (CHUNKED, b"3\r\none\r\n")])
def test_the_limit_holds_for_the_whole_response(pieces):
    with pytest.raises(TritonTimeoutError):
        read(*pieces, timeout_s=0.2)


def test_a_header_with_a_line_break_is_rejected():
    with pytest.raises(TritonRequestError):
        read(headers={"X": "a\r\nY: b"})
