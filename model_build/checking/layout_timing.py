"""Compare repositories with the same model in different layouts: CPU time per request in a real Triton.

Only the server that will run the artifact knows what a layout costs: its backends, batches, and transfers
between processes. Callers ask concurrently, so that Triton batches as it does under load. CPU time hardly
depends on other programs; layouts take turns, and the least disturbed round counts.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from model_build.checking.archive_check import READY_WITHIN_S, own_threads
from model_build.checking.served_model import InvocationClient
from model_build.errors import ServingError, SilentModelError
from tritonstack.base.errors import TritonstackError
from tritonstack.client import encode_request
from tritonstack.client.codec import EncodedRequest
from tritonstack.facts.container_variables import ContainerOptions, container_variables
from tritonstack.triton import TritonInstallation, TritonServer
from tritonstack.triton.errors import TritonFailedError, TritonRequestError
from tritonstack.triton.processor_time import processor_seconds

MOST_CALLERS, WAVE_S = 32, 2.0
"""Concurrent callers, and the time within which one core would answer all of them: slow models have fewer."""
ROUNDS, ROUND_S = 3, 1.0


@dataclass(frozen=True)
class LayoutTime:
    """What a layout costs, or why it cannot be served."""

    milliseconds: float | None = None
    """CPU time per request."""
    callers: int = MOST_CALLERS
    """Concurrent callers while it was measured."""
    violation: str = ""
    was_silent: bool = False
    """Whether Triton got no heartbeat from a model process, as on an overloaded machine."""


def time_layouts(
    repositories: Mapping[str, Path],
    requests: Sequence[Mapping[str, NDArray[Any]]],
    *,
    entry: str,
    installation: TritonInstallation,
    work: Path,
) -> dict[str, LayoutTime]:
    """Serve all repositories at once, and measure them in turn; once more if a model process was silent."""
    encoded = [encode_request(inputs) for inputs in requests]

    def measured(attempt: int) -> dict[str, LayoutTime]:
        with ExitStack() as running:
            layouts = [
                _Layout(name, _served(repository, entry, installation, work / f"layout-{number}-{attempt}"))
                for number, (name, repository) in enumerate(repositories.items())
            ]
            for layout in layouts:
                layout.attempt(lambda each: each.enter(running, encoded[0]))
            callers = _callers(max(layout.seconds_alone for layout in layouts))
            for _ in range(1 + ROUNDS):  # the first one warms up
                for layout in layouts:
                    layout.attempt(lambda each: each.costs.append(_cost(each.client, encoded, callers)))
            return {layout.name: layout.result(callers) for layout in layouts}

    times = measured(1)
    return measured(2) if any(each.was_silent for each in times.values()) else times


@dataclass
class _Layout:
    """A layout while it is measured."""

    name: str
    served: AbstractContextManager[InvocationClient]
    client: Any = None
    seconds_alone: float = 0.0
    costs: list[float] = field(default_factory=list)
    failure: TritonstackError | None = None

    def enter(self, running: ExitStack, request: EncodedRequest) -> None:
        """Start the server; time one request, after one that warms up."""
        self.client = running.enter_context(self.served)
        self.client.post(request.body, request.content_type)
        begin = time.monotonic()
        self.client.post(request.body, request.content_type)
        self.seconds_alone = time.monotonic() - begin

    def attempt(self, action: Callable[[_Layout], None]) -> None:
        """Run a step, unless an earlier one failed; the other layouts can still be chosen."""
        if self.failure is None:
            try:
                action(self)
            except (ServingError, TritonFailedError, TritonRequestError) as error:
                self.failure = error

    def result(self, callers: int) -> LayoutTime:
        """Return what was measured; the first round has warmed up."""
        if self.failure is not None:
            silent = isinstance(self.failure, SilentModelError)
            return LayoutTime(None, callers, self.failure.message, silent)
        return LayoutTime(round(min(self.costs[1:]), 3), callers)


@contextmanager
def _served(
    repository: Path, entry: str, installation: TritonInstallation, state_dir: Path
) -> Iterator[InvocationClient]:
    variables = container_variables({}, ContainerOptions(entry, threads=own_threads(repository)))
    with TritonServer.start(
        installation=installation, model_root=repository, environment=variables, state_dir=state_dir
    ) as server:
        server.wait_ready(timeout_s=READY_WITHIN_S)
        yield InvocationClient(server, "/invocations", {})


def _callers(seconds_alone: float) -> int:
    """Return the number of callers for requests that take so long alone."""
    return max(1, min(MOST_CALLERS, int(WAVE_S / max(seconds_alone, 1e-6))))


def _cost(client: InvocationClient, requests: Sequence[EncodedRequest], callers: int) -> float:
    """Send requests for one round; return the server's CPU milliseconds per request."""
    before = processor_seconds(client.server.pid)
    answered = _send(client, requests, callers)
    return (processor_seconds(client.server.pid) - before) * 1000 / answered


def _send(client: InvocationClient, requests: Sequence[EncodedRequest], callers: int) -> int:
    """Send requests from all callers for one round; return how many were answered."""
    deadline = time.monotonic() + ROUND_S
    following = itertools.cycle(requests)

    def ask(_: int) -> int:
        answered = 0
        while not answered or time.monotonic() < deadline:
            request = next(following)
            client.post(request.body, request.content_type)
            answered += 1
        return answered

    with ThreadPoolExecutor(callers) as pool:
        return sum(pool.map(ask, range(callers)))
