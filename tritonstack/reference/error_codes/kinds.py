"""The record that describes one error code."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of error."""

    title: str
    explanation: str
    """The cause and the usual remedy, in a few sentences."""
