"""Run the operations of endpoints in background threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tritonstack_local.sagemaker.hosting.capacity import CLOSE_TIMEOUT_S, CloudEndingError

log = logging.getLogger(__name__)


class BackgroundOperations:
    """Operations that run in threads of their own, until they end or the cloud stops."""

    def __init__(self) -> None:
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def start(self, name: str, work: Callable[[], None], *, on_error: Callable[[Exception], None]) -> None:
        """Start an operation. `on_error` handles any error except the end of the cloud."""

        def run() -> None:
            try:
                work()
            except CloudEndingError:
                log.info("%s: interrupted by the end of the cloud", name)
            except Exception as error:
                log.exception("%s", name)
                on_error(error)
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, name=name, daemon=True)
        with self._lock:
            self._threads.add(thread)
        thread.start()

    def join(self) -> None:
        """Wait until all operations have ended, each for a limited time."""
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(timeout=CLOSE_TIMEOUT_S)
