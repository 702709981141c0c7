"""Daemon threads that load and unload models."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def run_in_background(name: str, work: Callable[..., None], *arguments: Any) -> None:
    """Run a function in a thread of its own."""
    threading.Thread(target=work, args=arguments, name=name, daemon=True).start()


def run_after(seconds: float, work: Callable[..., None], *arguments: Any) -> threading.Timer:
    """Run a function in a thread of its own after a delay; return the timer, which can be cancelled."""
    timer = threading.Timer(seconds, work, arguments)
    timer.daemon = True
    timer.start()
    return timer
