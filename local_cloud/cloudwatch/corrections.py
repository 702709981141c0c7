"""How moto is corrected: its methods replaced by others, in one place so that every replacement is seen."""

from __future__ import annotations

from typing import Any


def correct(*corrections: tuple[Any, str, Any]) -> None:
    """Replace methods: whose, which, by what."""
    for owner, name, replacement in corrections:
        setattr(owner, name, replacement)
