"""Corrections of moto: where its services must behave differently to match AWS.

The replacements are process-wide; `uncorrected` restores the original methods temporarily.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_MISSING = object()
_originals: dict[tuple[Any, str], Any] = {}


def correct(*corrections: tuple[Any, str, Any]) -> None:
    """Replace methods: owner, name, replacement."""
    for owner, name, replacement in corrections:
        _originals.setdefault((owner, name), vars(owner).get(name, _MISSING))
        setattr(owner, name, replacement)


@contextmanager
def uncorrected() -> Iterator[None]:
    """Restore moto's original methods within the context."""
    corrected = {(owner, name): vars(owner)[name] for owner, name in _originals}
    for (owner, name), original in _originals.items():
        if original is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, original)
    try:
        yield
    finally:
        for (owner, name), replacement in corrected.items():
            setattr(owner, name, replacement)
