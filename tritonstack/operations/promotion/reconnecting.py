"""Read large bodies over connections that may break: reconnect while they make progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator

PAUSES_S = (1.0, 2.0, 5.0, 10.0, 20.0)
"""Pauses between attempts of a download that receive nothing."""
CHUNK = 1 << 20

OnBytes = Callable[[int], None]
Sleep = Callable[[float], object]


def read_all(
    read_from: Callable[[int], Iterator[bytes]],
    size: int,
    have: int = 0,
    *,
    breaks: tuple[type[Exception], ...],
    sleep: Sleep,
    give_up: Callable[[int, str], Exception],
) -> Iterator[bytes]:
    """Yield the bytes from `have` to `size`; `read_from` opens a connection at an offset.

    `breaks` are the errors of dropped connections; `give_up` returns the error for a position and a failure.
    """
    pauses = iter(PAUSES_S)
    while have < size:
        failure = "it ended early"
        try:
            for block in read_from(have):
                have, pauses = have + len(block), iter(PAUSES_S)
                yield block
        except breaks as error:
            failure = str(error) or type(error).__name__
        if have < size:
            if (pause := next(pauses, None)) is None:
                raise give_up(have, failure)
            sleep(pause)
