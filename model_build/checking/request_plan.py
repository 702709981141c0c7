"""Requests that check a served archive: alone, batched, concurrent, or in sequence."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from model_build.checking.served_model import NO_PARAMETERS, InvocationClient, Parameters, measure
from model_build.data.cases import Case, batches, join_cases, rows_of, same_shapes
from model_build.repository.properties import RepositoryProperties
from tritonstack.files.records.comparing import Comparison
from tritonstack.files.records.manifests import LatencyReport

MEASURED_REQUESTS = {"one": 50, "full": 8}
AT_ONCE = 8
Series = list[tuple[Case, Parameters]]
"""Requests to send one after another."""


@dataclass(frozen=True)
class RequestPlan:
    """The cases, arranged as requests for one model."""

    cases: Sequence[Case]
    max_batch: int
    properties: RepositoryProperties
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), init=False)

    def series(self) -> list[Series]:
        """Return every case once: each alone, or all as one sequence."""
        if not self.properties.keeps_state:
            return [[(case, NO_PARAMETERS)] for case in self.cases]
        number, last = next(self._numbers), len(self.cases) - 1
        return [
            [
                (case, _place_in_sequence(number, start=index == 0, end=index == last))
                for index, case in enumerate(self.cases)
            ]
        ]

    def thoroughly(self, client: InvocationClient) -> Iterator[Comparison]:
        """Compare requests sent alone, batched, and concurrently with different lengths."""
        yield from ask_in_order(client, "alone", self.series())
        if not self.properties.keeps_state:  # a sequence's request is always one row
            for joined in batches(self.cases, self.max_batch):
                yield from client.compare("together", joined)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            crowd = [*self.series(), *reversed(self.series())]
            for comparisons in pool.map(
                lambda series: list(ask_in_order(client, "at once", [series])), crowd
            ):
                yield from comparisons

    def latencies(self, client: InvocationClient) -> Iterator[LatencyReport]:
        """Measure batch 1 and the largest batch; for sequences, batch 1 only."""
        usual = [case for case in self.cases if case.typical] or self.cases
        rows = [usual[0]]
        if self.max_batch:
            rows = [row for case in same_shapes(usual)[0] for row in rows_of(case)]
        yield measure(
            lambda: client.ask(rows[0].inputs, self._alone_in_sequence()),
            batch=1,
            requests=MEASURED_REQUESTS["one"],
        )
        if self.max_batch > 1 and not self.properties.keeps_state:
            full = join_cases(list(itertools.islice(itertools.cycle(rows), self.max_batch)))
            yield measure(
                lambda: client.ask(full.inputs), batch=self.max_batch, requests=MEASURED_REQUESTS["full"]
            )

    def _alone_in_sequence(self) -> Parameters:
        if not self.properties.keeps_state:
            return NO_PARAMETERS
        return _place_in_sequence(next(self._numbers), start=True, end=True)


def ask_in_order(client: InvocationClient, label: str, series: Iterable[Series]) -> Iterator[Comparison]:
    """Send series of requests in order and compare the answers."""
    for case, parameters in itertools.chain.from_iterable(series):
        yield from client.compare(label, case, parameters)


def _place_in_sequence(number: int, *, start: bool, end: bool) -> Parameters:
    return {"sequence_id": number, "sequence_start": start, "sequence_end": end}
