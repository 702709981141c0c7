"""What all checks of a packed archive have in common: what is served, the cases, and their tolerance.

Triton stops a model process that sends no heartbeat for a second, so an overloaded machine looks like a
crash. A check then runs once more on a new server, because the old one may return a late answer to the next
request. A real crash happens again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from model_build.checking.parity import Stage, judge
from model_build.data.cases import Case
from model_build.errors import SilentModelError
from model_build.repository.properties import read_instances
from model_build.store.archive import PackedArchive
from tritonstack.facts.container_variables import ADDITIONAL_ARGS, ContainerOptions, container_variables
from tritonstack.facts.threads import Threads
from tritonstack.files.model.tolerance import ModelTolerance, PrecisionOption
from tritonstack.files.records.comparing import Comparison
from tritonstack.files.records.manifests import ParityReport
from tritonstack.triton import TritonInstallation, TritonServer

READY_WITHIN_S = 120.0
AGAIN = "Triton got no heartbeat from a model process, as on an overloaded machine; retrying"
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class ArchiveCheck:
    """What to serve, the cases, and their tolerance."""

    installation: TritonInstallation
    packed: PackedArchive
    entry: str
    cases: Sequence[Case]
    accept: ModelTolerance = field(default_factory=ModelTolerance)
    precision: PrecisionOption = "fp32"
    work: Path
    """Folder for unpacked files and server logs."""
    arguments: tuple[str, ...] = ()
    """Extra Triton arguments, the same as on an endpoint."""
    notify: Callable[[str], None] = print
    """Called with a message when a step is retried."""

    def start(
        self,
        root: Path,
        mode: str,
        options: ContainerOptions,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> TritonServer:
        """Start a server with the variables of an endpoint's container, and some more."""
        required = {ADDITIONAL_ARGS: " ".join(self.arguments)} if self.arguments else {}
        return TritonServer.start(
            installation=self.installation,
            model_root=root,
            environment=container_variables({**required, **variables}, options),
            state_dir=self.work / f"{mode}-server",
        )

    def judge(self, comparisons: Sequence[Comparison], stage: Stage = "served") -> ParityReport:
        """Return the report; raise ParityError with a table of all misses."""
        return judge(stage, comparisons, self.accept, precision=self.precision)

    def with_retry(self, serve: Callable[[], Result]) -> Result:
        """Serve, and once more if a model process was silent."""
        try:
            return serve()
        except SilentModelError:
            self.notify(AGAIN)
            return serve()


def own_threads(repository: Path) -> Threads:
    """Return the threads of an endpoint with the cores of this machine."""
    instances = read_instances(repository, gpu=False)
    cores = len(os.sched_getaffinity(0))
    return Threads(cores, instances.most, instances.graphs_decide_threads, instances.least_threads)
