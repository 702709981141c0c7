"""A layer out of a registry, by links that ECR signs; where a connection ends early, the rest is asked for.

A layer has gigabytes, and Python's client gives less than there is without a word if the other side goes
away (cpython issue 129264). So what has arrived is held against the size that the manifest says.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse

from tritonstack.base.errors import TritonstackError

_PATIENCE_S = 60
_PAUSES_S = (1.0, 2.0, 5.0, 10.0, 20.0)
"""Between tries, as long as none of them brings anything."""
_CHUNK = 1 << 20
_BREAKS = (OSError, HTTPException)
"""Whatever keeps a connection from bringing more, refusals by the server with it."""
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


class LayerReadError(TritonstackError):
    """A layer does not come out of its registry."""


@dataclass(frozen=True)
class Layer:
    """A piece of an image where it is copied from."""

    digest: str
    size: int
    """By the image's manifest."""
    registry: str
    """For people."""
    link: Callable[[], str]
    """Makes a link that leads to it for a while."""


def read_parts(layer: Layer, part_size: int, *, sleep: Callable[[float], object]) -> Iterator[bytes]:
    """The whole layer in parts of one size, the last of which may be smaller."""
    held = bytearray()
    for block in _blocks(layer, sleep):
        held += block
        while len(held) >= part_size:
            yield bytes(held[:part_size])
            del held[:part_size]
    if held:
        yield bytes(held)


def bad_layer(layer: Layer, what: str) -> LayerReadError:
    """A layer that has arrived and is not what the manifest says."""
    return LayerReadError(
        f"a bad image is stopped here: layer {layer.digest} of {layer.registry} {what}",
        remedy="run the same command again; if it says the same, build the image again",
    )


def _blocks(layer: Layer, sleep: Callable[[float], object]) -> Iterator[bytes]:
    """As much as arrives at a time, over as many connections as it takes while they bring anything."""
    have, pauses = 0, iter(_PAUSES_S)
    while have < layer.size:
        fault = "it ended early"
        try:
            with _opened(layer.link(), have) as answer:
                _skip(answer, layer, have)
                # As it comes: of a longer read that breaks off nothing would be left.
                while have < layer.size and (block := answer.read1(min(_CHUNK, layer.size - have))):
                    have, pauses = have + len(block), iter(_PAUSES_S)
                    yield block
        except _BREAKS as error:
            fault = str(error) or type(error).__name__
        if have < layer.size:
            _pause(layer, have, fault, next(pauses, None), sleep)


def _pause(
    layer: Layer, have: int, fault: str, pause: float | None, sleep: Callable[[float], object]
) -> None:
    if pause is None:
        raise LayerReadError(
            f"layer {layer.digest} of {layer.registry} did not arrive: the connection failed after {have} of "
            f"{layer.size} bytes, and again each time that it was made anew ({fault})",
            remedy="see that this machine reaches Amazon S3, and run the same command again: it goes on with "
            "this layer",
        )
    sleep(pause)


def _opened(url: str, first: int) -> HTTPResponse:
    """What a link leads to, from a byte on."""
    if not url.startswith(("https://", "http://127.0.0.1")):
        raise LayerReadError(f"ECR names a layer by {url.partition('?')[0]}, which is no https address")
    headers = {"Range": f"bytes={first}-"} if first else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - looked at above
    opened: HTTPResponse = urllib.request.urlopen(request, timeout=_PATIENCE_S)  # noqa: S310 - the same
    return opened


def _skip(answer: HTTPResponse, layer: Layer, have: int) -> None:
    """Pass over what has arrived already: a server may answer with the whole to whoever asks for the rest."""
    begin, size = _extent(answer)
    if size not in (None, layer.size):
        raise bad_layer(layer, f"has {size} bytes, and its manifest says {layer.size}")
    if begin > have:
        raise HTTPException(f"byte {have} was asked for, and the answer begins with byte {begin}")
    left = have - begin
    while left and (block := answer.read1(min(_CHUNK, left))):
        left -= len(block)


def _extent(answer: HTTPResponse) -> tuple[int, int | None]:
    """The first byte of an answer, and the size of the whole if it says so."""
    if answer.status != HTTPStatus.PARTIAL_CONTENT:
        length = answer.headers.get("Content-Length")
        return 0, int(length) if length else None
    said = answer.headers.get("Content-Range", "")
    found = _RANGE.fullmatch(said)
    if found is None:
        raise HTTPException(f"a part of the layer is said to be {said!r}")
    return int(found[1]), int(found[2])
