"""Build engines with trtexec in a child process, with a shared timing cache."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from model_build.engines.trtexec import EngineOrder, version_of_banner, version_of_plan
from model_build.errors import BuildMachineError, EngineError
from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.errors import aws_error_code
from tritonstack.facts.releases import TritonRelease

# Cache files between builds: in a local folder, and under an S3 prefix for other machines. Holds timing
# caches and engines; one artifact may need engines built on other GPUs. A lost cache costs time only, so an
# unreachable bucket does not fail a build.

ERRORS = (BotoCoreError, ClientError)


@dataclass(frozen=True)
class SharedFiles:
    """Files by name. `notify` gets a message if a file cannot be fetched or shared."""

    folder: Path
    url: str | None
    notify: Callable[[str], None]

    def fetch(self, name: str) -> Path:
        """Return the local path of a file; download the shared copy if there is one."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if self.url:
            try:
                self._download(name, file)
            except ERRORS as error:
                self.notify(f"{self.url}/{name} skipped: {error}")
        return file

    def share(self, name: str) -> None:
        """Upload a local file for other machines."""
        if not self.url:
            return
        bucket, prefix = self._place()
        body = (self.folder / name).read_bytes()
        try:
            boto3.client("s3").put_object(
                Bucket=bucket, Key=f"{prefix}{name}", Body=body, Metadata={"sha256": _digest(body)}
            )
        except ERRORS as error:
            self.notify(f"{self.url}/{name} not uploaded: {error}")

    def _download(self, name: str, file: Path) -> None:
        bucket, prefix = self._place()
        try:
            reply = boto3.client("s3").get_object(Bucket=bucket, Key=f"{prefix}{name}")
        except ClientError as error:
            if aws_error_code(error) in ("NoSuchKey", "404"):
                return
            raise
        body = reply["Body"].read()
        if reply["Metadata"].get("sha256") != _digest(body):
            self.notify(f"{self.url}/{name} skipped: checksum mismatch")
            return
        part = file.with_suffix(".part")
        part.write_bytes(body)
        part.replace(file)

    def _place(self) -> tuple[str, str]:
        scheme, _, rest = (self.url or "").partition("://")
        bucket, _, prefix = rest.partition("/")
        if scheme != "s3" or not bucket:
            raise CommandLineError(
                f"{self.url!r} is not a valid cache URL", remedy="write s3://<bucket>/<prefix>"
            )
        return bucket, f"{prefix.rstrip('/')}/" if prefix else ""


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


TAIL_LINES = 25
ERROR = "[E] "
"""Marks error lines of trtexec; its last lines may be usage text instead."""
PLAN_VERSION_SINCE = (10, 0)
"""First TensorRT whose trtexec reports the version that built a plan."""
_CAPABILITY = "Compute Capability: "


class _FailedError(EngineError):
    """trtexec failed."""


@dataclass(frozen=True, kw_only=True)
class EngineBuilder:
    """Build engines for one GPU."""

    trtexec: Path
    release: TritonRelease
    capability: str
    gpu: str
    """GPU name: timings of another GPU are useless."""
    files: SharedFiles
    notify: Callable[[str], None]
    """Called with every line that trtexec prints."""

    def build(self, order: EngineOrder, plan: Path) -> str:
        """Build an engine, using cached kernel timings; return the TensorRT version."""
        cache_name = self._cache_name()
        cache = self.files.fetch(cache_name)
        has_timings = cache.exists()
        command = order.command(self.trtexec, plan=plan, timing_cache=cache)
        try:
            self._run(command)
        except _FailedError:
            if not has_timings:
                raise
            # A timing cache that is corrupt or from other hardware fails the build; it is disposable.
            self.notify("retrying without the timing cache")
            cache.unlink(missing_ok=True)
            self._run(command)
        if not plan.is_file():
            raise EngineError(
                f"trtexec wrote no engine\n  {shlex.join(command)}",
                remedy="run the command manually to see its output, and check the free disk space",
            )
        if cache.is_file():
            self.files.share(cache_name)
        return self.version_of(plan)

    def version_of(self, plan: Path) -> str:
        """Return the version that built an engine if trtexec reports it, else the release's."""
        if self.release.tensorrt_version < PLAN_VERSION_SINCE:
            return self.release.tensorrt
        done = subprocess.run(
            [str(self.trtexec), f"--loadEngine={plan}", "--getPlanVersionOnly"],
            capture_output=True,
            text=True,
            check=False,
        )
        version = version_of_plan(done.stdout + done.stderr)
        if version is None or version.split(".")[:3] != self.release.tensorrt.split(".")[:3]:
            raise BuildMachineError(
                f"the engine was built by TensorRT {version or 'unknown'}, not {self.release.tensorrt}",
                remedy=f"build in the image of Triton {self.release.name}",
            )
        return version

    def _run(self, command: list[str]) -> None:
        """Run trtexec; check the version and the GPU that it reports."""
        tail: deque[str] = deque(maxlen=TAIL_LINES)
        errors: deque[str] = deque(maxlen=TAIL_LINES)
        version_seen = False
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            try:
                for line in map(str.rstrip, process.stdout or ()):
                    (errors if ERROR in line else tail).append(line)
                    self.notify(line)
                    version_seen = self._check_version(line) or version_seen
                    self._check_capability(line)
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            raise _FailedError(
                f"trtexec failed with exit status {process.returncode}; command:\n  {shlex.join(command)}\n"
                + "\n".join(errors or tail),
                remedy="see the output above; operators that TensorRT lacks need `format: onnx`",
            )
        if not version_seen:
            raise BuildMachineError(
                f"{self.trtexec} prints no version",
                remedy="build in Triton's own image",
            )

    def _check_version(self, line: str) -> bool:
        """Check the TensorRT version in a line; return whether the line has one."""
        version = version_of_banner(line)
        if version is not None and version != self.release.tensorrt_version:
            raise BuildMachineError(
                f"{self.trtexec} is TensorRT {'.'.join(map(str, version))}; Triton {self.release.name} "
                f"has {self.release.tensorrt}, which cannot run its engines",
                remedy=f"build in the image of Triton {self.release.name}",
            )
        return version is not None

    def _check_capability(self, line: str) -> None:
        _, label, capability = line.partition(_CAPABILITY)
        if label and capability.strip() != self.capability:
            raise BuildMachineError(
                f"the local GPU has compute capability {capability.strip()}; the engine needs "
                f"{self.capability}",
                remedy="build on an instance of the endpoint's family",
            )

    def _cache_name(self) -> str:
        gpu = "".join(letter if letter.isalnum() else "-" for letter in self.gpu)
        return f"timing/{self.release.tensorrt}-sm{self.capability.replace('.', '')}-{gpu}.cache"


def engine_key(order: EngineOrder, capability: str) -> str:
    """Return a hash of all that decides an engine: graph, compute capability, TensorRT version, and flags."""
    digest = hashlib.sha256()
    folder = order.graph.parent
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    digest.update(repr((capability, order.version, order.flags())).encode())
    return digest.hexdigest()
