"""One build as a process of its own: in CodeBuild, in SageMaker Processing, or beside others on one machine.

It tells what it does in lines of JSON, one event a line:

    {"event": "step", "model": "minilm", "step": "export", "state": "done", "detail": "...", "seconds": 4.2}
    {"event": "built", "model": "minilm", "digest": "...", "target": "cpu", "reused": false, ...}
    {"event": "written", "model": "minilm", "entry": "minilm", "repository": "...", "arguments": [], ...}
    {"event": "failed", "model": "minilm", "code": "TS305", "message": "...", "remedy": "...", "exit_code": 1}
"""

from __future__ import annotations

import os
import subprocess
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from model_build.build import BuildFolders, BuiltArtifact, build_model, write_model
from model_build.errors import BuildMachineError, redact
from model_build.library_errors import as_build_error
from model_build.progress import BuildSteps, OnProgress, Progress, process_seconds
from tritonstack.base import naming
from tritonstack.base.paths import Project
from tritonstack.base.yaml import Document
from tritonstack.facts.drivers import least_driver
from tritonstack.facts.releases import RELEASES
from tritonstack.files.loading import load_models
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.examples import EXAMPLES_NAME

# AWS does not say which driver its build machines have.

_QUERY = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
_RELEASE = "NVIDIA_TRITON_SERVER_VERSION"
"""Set in NVIDIA's images."""


def require_driver(targets: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
    """Reject a GPU build if the host's driver is missing or too old for the image's CUDA.

    Skips the check outside NVIDIA's images, where the CUDA is not the release's.
    """
    release = RELEASES.get(environment.get(_RELEASE, ""))
    hardware = next((target.partition("-")[0] for target in targets if target.startswith("sm")), None)
    if release is None or hardware is None:
        return
    least = least_driver(release, sure=False)
    remedy = (
        f"set builds.machines.{hardware} in the environment file to a machine with driver {least} or "
        f"newer (`fleet`, `instance_type`, or `by_hand: true`), or choose a triton_release with an older CUDA"
    )
    needed = f"the CUDA {release.cuda} of Triton {release.name} needs NVIDIA driver {least} or newer"
    version = _driver_version()
    if version is None:
        raise BuildMachineError(f"{needed}; nvidia-smi finds no driver on this host", remedy=remedy)
    major = version.partition(".")[0]
    if not major.isdecimal() or int(major) < least:
        raise BuildMachineError(f"{needed}; this host has {version}", remedy=remedy)


def _driver_version() -> str | None:
    try:
        result = subprocess.run(_QUERY, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = result.stdout.split()
    return lines[0] if result.returncode == 0 and lines else None


Notify = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, kw_only=True)
class BuildOrder:
    """Parameters of one build job."""

    model: str
    targets: Sequence[str]
    """Targets to build for, most specific first."""
    bucket: str | None = None
    """Bucket to publish to; None keeps the artifact local."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """Choices of `precision: auto` in earlier builds of the same files, by model."""
    cache: str | None = None
    """s3://bucket/prefix shared by builds on several machines."""
    job: str | None = None
    """Name of the build record in the bucket."""
    write: Path | None = None
    """Empty folder to write the repository and its examples to, instead of an artifact."""


def run_order(project: Project, order: BuildOrder, notify: Notify, log: TextIO | None = None) -> int:
    """Run the job, report errors, and return the exit code. The full traceback goes to `log`."""
    try:
        done = _write(project, order, order.write, notify) if order.write else _build(project, order, notify)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        failure = as_build_error(error)
        notify(
            {
                "event": "failed",
                "model": order.model,
                "where": failure.where,
                "code": failure.code,
                "message": failure.coded_message,
                "remedy": failure.remedy,
                "exit_code": failure.exit_code,
            }
        )
        if log is not None:
            print(redact("".join(traceback.format_exception(error))), file=log, flush=True)
        return failure.exit_code
    notify(done)
    return 0


def _build(project: Project, order: BuildOrder, notify: Notify) -> dict[str, Any]:
    require_driver(order.targets)
    models, on_progress = _prepare(project, order, notify)
    result = build_model(
        model=models[order.model],
        members=models,
        folders=replace(BuildFolders.of(project), shared_cache=order.cache),
        targets=order.targets,
        choices=order.choices,
        on_progress=on_progress,
    )
    if order.bucket is not None:
        _publish(result, order, order.bucket, on_progress)
    return {"event": "built", "directory": str(result.artifact_dir), **_facts(result)}


def _write(project: Project, order: BuildOrder, folder: Path, notify: Notify) -> dict[str, Any]:
    models, on_progress = _prepare(project, order, notify)
    written = write_model(
        model=models[order.model],
        members=models,
        folders=BuildFolders.of(project),
        targets=order.targets,
        choices=order.choices,
        folder=folder,
        on_progress=on_progress,
    )
    (folder / EXAMPLES_NAME).write_text(written.examples.to_json(), encoding="utf-8")
    return {
        "event": "written",
        "model": order.model,
        "entry": written.entry,
        "repository": str(written.repository),
        "arguments": list(written.arguments),
        "choices": dict(written.choices),
    }


def _prepare(
    project: Project, order: BuildOrder, notify: Notify
) -> tuple[dict[str, Document[ModelSpec]], OnProgress]:
    def on_progress(progress: Progress) -> None:
        notify({"event": "step", "model": order.model, **asdict(progress)})

    models = load_models(project, order.model)
    on_progress(Progress("start", "done", "Python, modules, and model files", process_seconds()))
    return models, on_progress


def _publish(result: BuiltArtifact, order: BuildOrder, bucket: str, on_progress: OnProgress) -> None:
    # They take time to import, and a build on this machine does not publish.
    import boto3  # noqa: PLC0415

    from model_build.store.publishing import Published, leave_record, publish  # noqa: PLC0415

    def upload() -> Published:
        client = boto3.client("s3")
        published = publish(artifact_dir=result.artifact_dir, bucket=bucket, s3_client=client)
        if order.job is not None:
            key = naming.build_record_key(result.manifest.model, order.job)
            leave_record(client, bucket, key, _facts(result))
        return published

    BuildSteps(on_progress).run("publish", upload, lambda published: published.archive_url)


def _facts(result: BuiltArtifact) -> dict[str, Any]:
    manifest = result.manifest
    return {
        "model": manifest.model,
        "digest": manifest.digest,
        "target": manifest.target,
        "spec_hash": manifest.spec_hash,
        "reused": result.reused,
    }
