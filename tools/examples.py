"""`make examples`: run the commands of each example's README, and print what the examples show.

Each example is copied into a temporary folder by `tritonstack init`, with a local cloud of its own. The
console blocks of its README run in one shell, up to the section about GPUs and AWS. While its endpoints are
up, stored requests are sent to each model: the answers must match those of the build, and the client measures
the time. Exits with 0 only if every example passes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tritonstack.base.errors import TritonstackError
from tritonstack.base.naming import artifact_prefix
from tritonstack.base.paths import Project, find_project
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.manifests import MANIFEST_NAME, Manifest, parse_manifest
from tritonstack.operate.invoke.examples import load_examples
from tritonstack.operate.invoke.invocation_targets import InvocationTarget, endpoint_targets
from tritonstack.operate.invoke.smoke_requests import USUAL_PATIENCE, ask_all
from tritonstack.operate.project.repository import create_repository
from tritonstack.operate.shared.session import Session

SOURCE = find_project(Path(__file__).parent)
GALLERY = SOURCE.root / "examples"
ENVIRONMENT = "local"
NOT_RUN = "## What only a GPU or AWS can show"
"""The heading that every README has; the commands below it are not run."""
DESTROY = f"tritonstack destroy {ENVIRONMENT}"
"""The command before which the endpoints are measured."""
FORGET = ("tritonstack down --forget",)
CALLS = 50
LEAST_WIDTH = 140
"""Columns of the table, where the output is no terminal or a narrow one."""
TIMEOUT_S = 900
"""For the commands before the destroy together, and for the rest together; only what hangs reaches it."""


class ExampleFailedError(Exception):
    """A command of an example failed, or an answer was wrong."""


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """One model on one endpoint of an example."""

    model: str
    digest: str
    kind: str
    """The endpoint's kind and the recipe's."""
    size_bytes: int
    """Size of the archive."""
    min_cosine: float | None
    """The lowest cosine to the framework in the build; None if nothing was compared."""
    max_absolute_error: float | None
    """The largest difference from the framework in the build."""
    p50_ms: float | None
    """Time per request at the client, one caller; None if the endpoint answers no direct requests."""


@dataclass(frozen=True, kw_only=True)
class ExampleResult:
    """What an example showed, or why it failed."""

    example: str
    seconds: float
    models: tuple[ServedModel, ...] = ()
    yaml_lines: int = 0
    """Lines in the files of the environment and its models, without comments."""
    model_python_lines: int = 0
    """Lines of Python that are deployed."""
    script_lines: int = 0
    """Lines of Python that train and compare."""
    failure: str = ""


def example_names() -> list[str]:
    """Return the examples with a tutorial."""
    return sorted(file.parent.name for file in GALLERY.glob("*/README.md"))


def documented_commands(readme: str) -> list[str]:
    """Return the commands of a README's console blocks that run on any machine, without comments."""
    text, heading, _ = readme.partition(f"\n{NOT_RUN}\n")
    if not heading:
        raise ExampleFailedError(f"README.md has no section {NOT_RUN!r}")
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = "".join(blocks).replace("\\\n", "").splitlines()
    commands = [command for line in lines if (command := re.sub(r"(^|\s+)# .*$", "", line).strip())]
    if not any(command.startswith(DESTROY) for command in commands):
        raise ExampleFailedError(f"README.md does not show `{DESTROY}`")
    return commands


def run_example(name: str, folder: Path, *, log: Path) -> ExampleResult:
    """Run an example in a new folder; its local cloud is stopped and forgotten at the end."""
    started = time.monotonic()
    project = _create(name, folder)
    commands = documented_commands((GALLERY / name / "README.md").read_text(encoding="utf-8"))
    begin_destroy = next(index for index, text in enumerate(commands) if text.startswith(DESTROY))
    try:
        _run(commands[:begin_destroy], project, log)
        models = tuple(_measured(project))
        _run(commands[begin_destroy:], project, log)
    except BaseException:
        with contextlib.suppress(ExampleFailedError):  # the first failure is the one to report
            _run(FORGET, project, log)
        raise
    _run(FORGET, project, log)
    scripts = project.root.glob("*.py")
    deployed = (file for file in project.models_dir.rglob("*.py") if "weights" not in file.parts)
    return ExampleResult(
        example=name,
        seconds=time.monotonic() - started,
        models=models,
        yaml_lines=_count_lines(_yaml_files(project)),
        model_python_lines=_count_lines(deployed),
        script_lines=_count_lines(scripts),
    )


def _create(name: str, folder: Path) -> Project:
    """Create the repository as `tritonstack init` does, with this project's server and CDK CLI."""
    create_repository(folder, example=name)
    project = Project(folder)
    (folder / "node_modules").symlink_to(SOURCE.root / "node_modules")
    (folder / ".tritonstack").mkdir()
    (folder / ".tritonstack/server").symlink_to(SOURCE.server_dir)
    return project


def _run(commands: Sequence[str], project: Project, log: Path) -> None:
    """Run commands in one shell, whose output goes to the log; raise on the first that fails."""
    mark = "+ "
    script = "\n".join(f"echo {shlex.quote(mark + command)}\n{command}" for command in commands)
    with log.open("a", encoding="utf-8") as output:
        begin = output.tell()
        process = subprocess.Popen(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            cwd=project.root,
            env=_variables(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if code != 0:
        text = log.read_text(encoding="utf-8", errors="replace")[begin:]
        failed = [line for line in text.splitlines() if line.startswith(mark)][-1].removeprefix(mark)
        reason = f"exited with {code}" if code is not None else f"timed out after {TIMEOUT_S} s"
        last = "\n".join(text.splitlines()[-15:])
        raise ExampleFailedError(f"`{failed}` {reason}:\n{last}")


def _variables() -> Mapping[str, str]:
    """Return the environment without what selects another cloud or project."""
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("AWS_", "CDK_", "SM_", "TRITONSTACK_"))
    }
    programs = (f"{sys.prefix}/bin", f"{SOURCE.root}/node_modules/.bin", inherited.get("PATH", ""))
    return {**inherited, "PATH": os.pathsep.join(programs), "COLUMNS": "160", "PYTHONUNBUFFERED": "1"}


def _measured(project: Project) -> Iterator[ServedModel]:
    session = Session(project)
    workspace = session.workspace(ENVIRONMENT)
    for name, endpoint in workspace.spec.endpoints.items():
        for target in endpoint_targets(workspace, name):
            if target.artifact is None:
                raise ExampleFailedError(f"{target.model.name} is not in the lock")
            manifest = _read_manifest(project, target.model.name, target.artifact.digest)
            recipe = target.model.recipe.kind
            yield ServedModel(
                model=target.model.name,
                digest=target.artifact.digest,
                kind=endpoint.kind if endpoint.kind == recipe else f"{endpoint.kind}, {recipe}",
                size_bytes=manifest.archive_bytes,
                min_cosine=min((parity.min_cosine for parity in manifest.parity), default=None),
                max_absolute_error=max(
                    (parity.max_absolute_error for parity in manifest.parity), default=None
                ),
                p50_ms=_p50(session, workspace, target, target.artifact.digest),
            )


def _read_manifest(project: Project, model: str, digest: str) -> Manifest:
    file = project.artifacts_dir / artifact_prefix(model, digest) / MANIFEST_NAME
    return parse_manifest(file.read_bytes(), origin=file)


def _p50(session: Session, workspace: Workspace, target: InvocationTarget, digest: str) -> float | None:
    """Send the stored requests of a model repeatedly; return the median time in milliseconds.

    Raises an error if an answer differs from that of the build. Returns None if nothing can be sent: requests
    of more than a few megabytes are not stored.
    """
    if target.asynchronous or target.why_not:
        return None
    cloud, spec = session.cloud(workspace.spec), workspace.spec
    examples = load_examples(cloud, bucket=spec.artifact_bucket, model=target.model.name, digest=digest)
    times: list[float] = []
    while len(times) < CALLS:
        results = list(ask_all(cloud, spec, target, examples, USUAL_PATIENCE.begin()))
        wrong = [result for result in results if result.outcome not in {"ok", "skipped"}]
        if wrong:
            raise ExampleFailedError(f"{target.endpoint}/{target.model.name}: {wrong[0]}")
        measured = [result.milliseconds for result in results if result.milliseconds is not None]
        if not measured:
            return None
        times += measured
    return statistics.median(times[:CALLS])


def _yaml_files(project: Project) -> Iterator[Path]:
    """Yield the files of the local environment and its models."""
    yield project.environment_file(ENVIRONMENT)
    yield from map(project.model_file, Session(project).workspace(ENVIRONMENT).models)


def _count_lines(files: Iterable[Path]) -> int:
    """Count lines that are neither empty nor comments."""
    lines = (line.strip() for file in files for line in file.read_text(encoding="utf-8").splitlines())
    return sum(bool(line) and not line.startswith("#") for line in lines)


def results_table(results: Sequence[ExampleResult]) -> Table:
    """Return one row per model, and one per failed example."""
    table = Table(
        title="examples on this machine: worst cosine and difference from the framework, "
        f"p50 of {CALLS} calls by one caller, lines of YAML, deployed Python, and scripts"
    )
    for title in ("example", "model", "kind"):
        table.add_column(title, no_wrap=title != "kind")
    for title in ("size", "cosine", "difference", "p50", "YAML", "Python", "scripts"):
        table.add_column(title, justify="right", no_wrap=True)
    for result in results:
        if result.failure:
            table.add_row(result.example, "[bold red]failed", result.failure.partition("\n")[0])
        for index, model in enumerate(result.models):
            lines = (result.yaml_lines, result.model_python_lines, result.script_lines)
            table.add_row(
                result.example if index == 0 else "",
                model.model,
                model.kind,
                _size(model.size_bytes),
                "-" if model.min_cosine is None else f"{model.min_cosine:.6f}",
                "-" if model.max_absolute_error is None else f"{model.max_absolute_error:.1e}",
                "-" if model.p50_ms is None else f"{model.p50_ms:.1f} ms",
                *(str(count) if index == 0 else "" for count in lines),
            )
    return table


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named examples, or all; print the results."""
    parser = argparse.ArgumentParser(prog="python -m tools.examples", description="Run the examples.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="examples to run; all by default")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(example_names()):
        parser.error(f"unknown example: {', '.join(sorted(unknown))}; use {', '.join(example_names())}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that SIGTERM stops the clouds too
    console = Console(stderr=options.json, highlight=False, emoji=False)
    console.width = max(console.width, LEAST_WIDTH)
    results = [_attempt(name, console) for name in options.names or example_names()]
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        console.print(results_table(results))
    return 1 if any(result.failure for result in results) else 0


def _attempt(name: str, console: Console) -> ExampleResult:
    """Run one example in a temporary folder; report its failure instead of raising it."""
    started = time.monotonic()
    console.print(f"[bold]{name}[/]: running its README")
    with tempfile.TemporaryDirectory(prefix=f"tritonstack-{name}-") as temporary:
        log = Path(temporary, "log.txt")
        try:
            result = run_example(name, Path(temporary, name), log=log)
        except (ExampleFailedError, TritonstackError) as error:
            result = ExampleResult(example=name, seconds=time.monotonic() - started, failure=str(error))
    outcome = f"[bold red]failed[/]: {result.failure}" if result.failure else "[bold green]passed"
    console.print(f"[bold]{name}[/]: {outcome} ({result.seconds:.0f} s)", soft_wrap=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
