"""Read a layer from a registry through presigned URLs; resume dropped connections.

Layers have gigabytes, and Python's client silently returns less if the server closes the connection (cpython
issue 115997). So the received bytes are compared with the size in the manifest.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse

from tritonstack.base.error_kinds import CopyError

_PATIENCE_S = 60
PAUSES_S = (1.0, 2.0, 5.0, 10.0, 20.0)
"""Pauses between attempts of a download that receive nothing."""
_CHUNK = 1 << 20
_BREAKS = (OSError, HTTPException)
"""Errors that end a connection, including rejections by the server."""
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


@dataclass(frozen=True)
class Layer:
    """A layer of an image to copy."""

    digest: str
    size: int
    """From the image's manifest."""
    registry: str
    """For messages."""
    link: Callable[[], str]
    """Return a presigned URL."""


def read_parts(layer: Layer, part_size: int, *, sleep: Callable[[float], object]) -> Iterator[bytes]:
    """Yield the layer in parts of one size; the last one may be smaller."""
    buffer = bytearray()
    for block in _blocks(layer, sleep):
        buffer += block
        while len(buffer) >= part_size:
            yield bytes(buffer[:part_size])
            del buffer[:part_size]
    if buffer:
        yield bytes(buffer)


def bad_layer(layer: Layer, failure: str) -> CopyError:
    """Return the error for a layer that does not match the manifest."""
    return CopyError(
        f"damaged layer {layer.digest} of {layer.registry}: {failure}; nothing was copied",
        remedy="rerun the command; if it fails again, rebuild the image",
    )


def _blocks(layer: Layer, sleep: Callable[[float], object]) -> Iterator[bytes]:
    """Yield blocks as they arrive; reconnect while connections make progress."""
    have, pauses = 0, iter(PAUSES_S)
    while have < layer.size:
        failure = "it ended early"
        try:
            with _opened(layer.link(), have) as answer:
                _skip(answer, layer, have)
                # read1 returns partial data; a longer read would lose it if the connection drops.
                while have < layer.size and (block := answer.read1(min(_CHUNK, layer.size - have))):
                    have, pauses = have + len(block), iter(PAUSES_S)
                    yield block
        except _BREAKS as error:
            failure = str(error) or type(error).__name__
        if have < layer.size:
            _pause(layer, have, failure, next(pauses, None), sleep)


def _pause(
    layer: Layer, have: int, failure: str, pause: float | None, sleep: Callable[[float], object]
) -> None:
    if pause is None:
        raise CopyError(
            f"cannot read layer {layer.digest} of {layer.registry}: the connection failed after {have} of "
            f"{layer.size} bytes, and reconnecting did not help ({failure})",
            remedy="check the connection to Amazon S3, and rerun the command; it resumes with this layer",
        )
    sleep(pause)


def _opened(url: str, first: int) -> HTTPResponse:
    """Open a URL from a byte offset."""
    if not url.startswith(("https://", "http://127.0.0.1")):
        raise CopyError(
            f"ECR returned a layer URL without https: {url.partition('?')[0]}",
            remedy="check the proxy and the endpoint URL of ECR (AWS_ENDPOINT_URL_ECR)",
        )
    headers = {"Range": f"bytes={first}-"} if first else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - looked at above
    opened: HTTPResponse = urllib.request.urlopen(request, timeout=_PATIENCE_S)  # noqa: S310 - the same
    return opened


def _skip(answer: HTTPResponse, layer: Layer, have: int) -> None:
    """Skip bytes that have arrived: a server may ignore the range and send the whole layer."""
    begin, size = _extent(answer)
    if size not in (None, layer.size):
        raise bad_layer(layer, f"got {size} bytes, manifest expects {layer.size}")
    if begin > have:
        raise HTTPException(f"requested byte {have}, but the response starts with byte {begin}")
    remaining = have - begin
    while remaining and (block := answer.read1(min(_CHUNK, remaining))):
        remaining -= len(block)


def _extent(answer: HTTPResponse) -> tuple[int, int | None]:
    """Return the first byte of a response, and the total size if given."""
    if answer.status != HTTPStatus.PARTIAL_CONTENT:
        length = answer.headers.get("Content-Length")
        return 0, int(length) if length else None
    content_range = answer.headers.get("Content-Range", "")
    match = _RANGE.fullmatch(content_range)
    if match is None:
        raise HTTPException(f"invalid Content-Range {content_range!r}")
    return int(match[1]), int(match[2])
