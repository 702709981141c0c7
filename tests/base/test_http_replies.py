"""HTTP/1.1 replies are read the same however they arrive, and broken ones are rejected."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritonstack.base.http import HEAD_LIMIT, InvalidReplyError, ReplyReader


def read(*parts, end=False):
    reader = ReplyReader()
    reply = None
    for part in parts:
        assert reply is None
        reply = reader.feed(part)
    return reader.feed(b"") if reply is None and end else reply


def chunked(body, sizes):
    parts, start = [], 0
    for size in [*sizes, len(body) or 1]:
        if piece := body[start : start + size]:
            parts.append(b"%x;extension=1\r\n%b\r\n" % (len(piece), piece))
        start += size
    return b"".join(parts) + b"0\r\n"


@given(data=st.data(), body=st.binary(max_size=400), interim=st.booleans(), trailer=st.booleans())
@pytest.mark.parametrize("form", ["length", "chunks", "until the end"])
def test_reply_can_arrive_in_any_pieces(data, body, form, interim, trailer):
    head = b"HTTP/1.1 100 Continue\r\n\r\n" if interim else b""
    head += b"HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nX-A: 1\r\nx-a:2\r\n"
    if form == "length":
        wire = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    elif form == "chunks":
        sizes = data.draw(st.lists(st.integers(1, 100), max_size=6))
        end = b"X-Trailer: t\r\n\r\n" if trailer else b"\r\n"
        wire = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(body, sizes) + end
    else:
        wire = head + b"\r\n" + body
    cuts = sorted(data.draw(st.lists(st.integers(1, len(wire)), max_size=8)))
    pieces = [wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True) if a < b]
    reply = read(*pieces, end=form == "until the end")
    assert (reply.status, reply.body) == (200, body)
    assert reply.headers["content-type"] == "text/x"
    assert reply.headers["x-a"] == "1, 2"
    assert reply.reusable is (form != "until the end")


@pytest.mark.parametrize(
    ("head", "rest", "reusable"),
    [
        ("HTTP/1.1 200 OK\r\nContent-Length: 0", b"", True),
        ("HTTP/1.1 204 \r\nContent-Length: 5", b"", True),
        ("HTTP/1.1 304", b"", True),
        ("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0", b"", False),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0", b"", False),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1", b"ab", False),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 9", b"0\r\n\r\n", False),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", b"0\r\n\r\nHTTP", False),
    ],
)
def test_a_connection_is_reused_only_in_step(head, rest, reusable):
    assert read(f"{head}\r\n\r\n".encode() + rest).reusable is reusable


@pytest.mark.parametrize(
    "wire",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabb0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * (HEAD_LIMIT + 1),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: 1\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"SSH-2.0-server\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * HEAD_LIMIT,
    ],
)
def test_broken_reply_is_rejected(wire):
    with pytest.raises(InvalidReplyError):
        read(*([wire] if wire else []), end=True)


def test_a_large_reply_is_read_in_few_pieces():
    reader = ReplyReader()
    size = 25 * 2**20
    reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
    reads, remaining, reply = 0, size, None
    while reply is None:
        take = min(reader.read_size, remaining)
        reply = reader.feed(b"x" * take)
        reads, remaining = reads + 1, remaining - take
    assert len(reply.body) == size
    assert reads == 25
