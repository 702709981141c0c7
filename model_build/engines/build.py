"""Building engines: trtexec in a child process, its timing cache, and what it says of itself."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from model_build.engines.shared_files import SharedFiles
from model_build.engines.trtexec import EngineOrder, version_of_banner, version_of_plan
from model_build.errors import EngineError
from tritonstack.reference.releases import TritonRelease

TAIL_LINES = 25
ERROR = "[E] "
"""Stands in lines of trtexec that say what is wrong; the last lines may be its help instead."""
PLAN_VERSION_SINCE = (10, 0)
"""From here on trtexec tells which version built a plan."""
_CAPABILITY = "Compute Capability: "


class _FailedError(EngineError):
    """trtexec has ended with an error of its own."""


@dataclass(frozen=True, kw_only=True)
class EngineBuilder:
    """Builds engines for one GPU."""

    trtexec: Path
    release: TritonRelease
    capability: str
    gpu: str
    """The GPU's name: times measured on another are of no use."""
    files: SharedFiles
    notify: Callable[[str], None]
    """Hears every line that trtexec prints."""

    def build(self, order: EngineOrder, plan: Path) -> str:
        """Build an engine, quicker where its kernels were timed before; TensorRT's version."""
        cache_name = self._cache_name()
        cache = self.files.fetch(cache_name)
        known = cache.exists()
        command = order.command(self.trtexec, plan=plan, timing_cache=cache)
        try:
            self._run(command)
        except _FailedError:
            if not known:
                raise
            # A timing cache that is damaged or of other hardware fails the build; it can be lost.
            self.notify("once more, without the timing cache")
            cache.unlink(missing_ok=True)
            self._run(command)
        if not plan.is_file():
            raise EngineError(f"trtexec has written no engine\n  {shlex.join(command)}")
        if cache.is_file():
            self.files.share(cache_name)
        return self.version_of(plan)

    def version_of(self, plan: Path) -> str:
        """The version that built an engine, if trtexec tells it; else the release's."""
        if self.release.tensorrt_version < PLAN_VERSION_SINCE:
            return self.release.tensorrt
        told = subprocess.run(
            [str(self.trtexec), f"--loadEngine={plan}", "--getPlanVersionOnly"],
            capture_output=True,
            text=True,
            check=False,
        )
        version = version_of_plan(told.stdout + told.stderr)
        if version is None or version.split(".")[:3] != self.release.tensorrt.split(".")[:3]:
            raise EngineError(
                f"the engine was built by TensorRT {version or 'unknown'}, not {self.release.tensorrt}",
                remedy=f"build in the image of Triton {self.release.name}",
            )
        return version

    def _run(self, command: list[str]) -> None:
        """Run trtexec, and hold what it says of itself against what was to be built."""
        said: list[str] = []
        tail: deque[str] = deque(maxlen=TAIL_LINES)
        errors: deque[str] = deque(maxlen=TAIL_LINES)
        told = False
        for line in self._lines(command, said):
            (errors if ERROR in line else tail).append(line)
            self.notify(line)
            told = self._check_version(line) or told
            self._check_capability(line)
        if said:
            raise _FailedError(
                f"trtexec fails with exit status {said[0]}; it was called as\n  {shlex.join(command)}\n"
                + "\n".join(errors or tail),
                remedy="read what it says; a step that TensorRT does not know needs `format: onnx`",
            )
        if not told:
            raise EngineError(f"{self.trtexec} does not tell its version", remedy="use Triton's own image")

    def _lines(self, command: list[str], said: list[str]) -> Iterator[str]:
        """What trtexec prints; its exit status, if it fails, is put into `said`."""
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            try:
                for line in process.stdout or ():
                    yield line.rstrip()
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            said.append(str(process.returncode))

    def _check_version(self, line: str) -> bool:
        """Whether the line tells TensorRT's version; the wrong one ends the build."""
        version = version_of_banner(line)
        if version is not None and version != self.release.tensorrt_version:
            raise EngineError(
                f"{self.trtexec} is TensorRT {'.'.join(map(str, version))}, and Triton {self.release.name} "
                f"carries {self.release.tensorrt}, which would not run its engines",
                remedy=f"build in the image of Triton {self.release.name}",
            )
        return version is not None

    def _check_capability(self, line: str) -> None:
        _, found, capability = line.partition(_CAPABILITY)
        if found and capability.strip() != self.capability:
            raise EngineError(
                f"the GPU here has compute capability {capability.strip()}, and the engine is for "
                f"{self.capability}",
                remedy="build on an instance of the endpoint's family",
            )

    def _cache_name(self) -> str:
        gpu = "".join(letter if letter.isalnum() else "-" for letter in self.gpu)
        return f"timing/{self.release.tensorrt}-sm{self.capability.replace('.', '')}-{gpu}.cache"


def engine_key(order: EngineOrder, capability: str) -> str:
    """What decides an engine: the graph's bytes, the GPU's capability, TensorRT's version and flags."""
    digest = hashlib.sha256()
    folder = order.graph.parent
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    digest.update(repr((capability, order.version, order.flags())).encode())
    return digest.hexdigest()
