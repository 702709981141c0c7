"""Does things that depend on each other: each after what it needs, independent ones side by side."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from graphlib import TopologicalSorter

from tritonstack_local.cloudformation.graph import Dependencies

_WORKERS = 8


def run_in_order(
    graph: Dependencies,
    action: Callable[[str], None],
    *,
    may_start: Callable[[bool], bool],
) -> dict[str, BaseException]:
    """Run `action` on every node after all it depends on, and return what failed.

    `may_start(failed)` is asked before more nodes are started; what depends on a failed node never starts.
    """
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    failures: dict[str, BaseException] = {}
    running: dict[Future[None], str] = {}
    with ThreadPoolExecutor(max_workers=_WORKERS) as pool:
        while True:
            if may_start(bool(failures)):
                running |= {pool.submit(action, node): node for node in sorter.get_ready()}
            if not running:
                return failures
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                node, error = running.pop(future), future.exception()
                if error is None:
                    sorter.done(node)
                else:
                    failures[node] = error
