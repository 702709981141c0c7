"""Collect the requests that arrive while the workers compute, and compute them as one batch."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, NamedTuple

from benchmarks.peers.engines import Array, Engine
from benchmarks.peers.forms import Form

_engine: Engine | None = None
"""The engine of a worker process."""


class Waiting(NamedTuple):
    """The rows of one request, and its answer."""

    rows: Sequence[Any]
    answer: asyncio.Future[Array]


class Batcher:
    """A queue of requests, and workers that each take everything in it up to a limit."""

    def __init__(self, load: Callable[[], Engine], form: Form) -> None:
        self._form = form
        self._queue: asyncio.Queue[Waiting] = asyncio.Queue()
        self._compute, self._pool = _computer(load, form)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start the workers in the running event loop."""
        loop = asyncio.get_running_loop()
        if self._form.isolated:
            ready = [loop.run_in_executor(self._pool, _is_ready) for _ in range(self._form.workers)]
            await asyncio.gather(*ready)
        self._tasks = [asyncio.create_task(self._work()) for _ in range(max(1, self._form.workers))]

    async def compute(self, rows: Sequence[Any]) -> Array:
        """Return the answers to the rows of one request."""
        answer: asyncio.Future[Array] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(Waiting(rows, answer))
        return await answer

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._queue.get()]
            while not self._queue.empty() and len(batch) < self._form.most:
                batch.append(self._queue.get_nowait())
            rows = [row for waiting in batch for row in waiting.rows]
            try:
                if self._pool is None:
                    answers = self._compute(rows)
                else:
                    answers = await loop.run_in_executor(self._pool, self._compute, rows)
            except Exception as error:
                for waiting in batch:
                    waiting.answer.set_exception(error)
                continue
            begin = 0
            for waiting in batch:
                waiting.answer.set_result(answers[begin : begin + len(waiting.rows)])
                begin += len(waiting.rows)


def _computer(
    load: Callable[[], Engine], form: Form
) -> tuple[Callable[[Sequence[Any]], Array], Executor | None]:
    """Return a function that computes a batch, and the pool that runs it; no pool for the event loop."""
    if not form.isolated:
        return load().compute, ThreadPoolExecutor(form.workers) if form.workers else None
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(form.workers, mp_context=spawn, initializer=_load, initargs=(load,))
    return _compute, pool


def _load(load: Callable[[], Engine]) -> None:
    global _engine  # noqa: PLW0603 - a worker process has one engine
    _engine = load()


def _is_ready() -> bool:
    return _engine is not None


def _compute(rows: Sequence[Any]) -> Array:
    assert _engine is not None  # noqa: S101  the pool's initializer has loaded it
    return _engine.compute(rows)
