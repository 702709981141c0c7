"""Triton's classification extension: ask for an output's highest classes instead of its tensor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tritonstack.base.byte_tensors import Array
from tritonstack.client.errors import MalformedReplyError


@dataclass(frozen=True)
class TopClasses:
    """Requests the `count` highest classes of an output, in place of its tensor."""

    output: str
    count: int = 1


@dataclass(frozen=True)
class ScoredClass:
    """One class of an answer: its value, its index in the output, and its label if the model has labels."""

    value: float
    index: int
    label: str = ""


def parse_classes(output: Array) -> list[list[ScoredClass]]:
    """Return the classes of each row, highest first, from an output that was requested with TopClasses.

    Triton sends each class as the text `value:index` or `value:index:label`.
    """
    if output.dtype.kind != "O" or output.ndim == 0:
        raise MalformedReplyError(f"expected classes as strings, got {output.dtype} of {list(output.shape)}")
    return [_row(row) for row in output.reshape(-1, output.shape[-1])] if output.size else []


def _row(row: Iterable[object]) -> list[ScoredClass]:
    return [_scored_class(item) for item in row]


def _scored_class(item: object) -> ScoredClass:
    try:
        text = item.decode() if isinstance(item, bytes) else str(item)
        value, index, *label = text.split(":", maxsplit=2)
        return ScoredClass(value=float(value), index=int(index), label="".join(label))
    except ValueError as error:
        raise MalformedReplyError(f"expected a class as value:index:label, got {item!r}") from error
