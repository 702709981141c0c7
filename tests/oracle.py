"""Record what this version of the project produces, or compare it with an earlier record.

`python -m tests.oracle FOLDER` writes, one file each: the templates of the sample environments, each
resource's logical id and name, each command's help, the message of each error example, and the `--json` of
commands that read, over this repository deployed to a local cloud. With `--examples`, also the artifact
digests of all examples (10 minutes). `--against OLD` prints what
differs from the record in OLD, and exits with 1 if anything does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.paths import Project
from tritonstack.files.project.workspace import Workspace

ROOT = Path(__file__).resolve().parents[1]
READ = (
    "validate",
    "status",
    "status local",
    "verify local",
    "diff local",
    "targets local",
    "quotas local",
    "inspect minilm-embedding",
    "snippet local minilm",
    "history minilm-embedding",
    "delivery",
    "audit local",
    "explain TS104",
    "promote local dev --dry-run",
)
"""Commands that change nothing."""
VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?"), "<time>"),
    (re.compile(r"(localhost|127\.0\.0\.1):\d+"), r"\1:<port>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(re.escape(tempfile.gettempdir()) + r"/[\w./-]+"), "<path>"),
    (re.compile(r"\b[0-9a-f]{64}\.(zip|json)\b"), r"<asset>.\1"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s|seconds)\b"), "<duration>"),
)
"""What differs between two runs of the same version."""


def record(folder: Path, *, examples: bool) -> None:
    """Write everything into an empty folder."""
    parts: dict[str, Iterator[tuple[str, str]]] = {
        "templates": templates(),
        "help": help_texts(),
        "errors": error_messages(),
        "results": results(),
    }
    if examples:
        parts["examples"] = example_digests()
    for part, files in parts.items():
        for name, text in files:
            file = folder / part / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


def templates() -> Iterator[tuple[str, str]]:
    """Yield the template of each stack of the sample environments, and a list of all resources."""
    from stacks.environment import add_environment
    from tests.sample_templates import SAMPLES
    from tests.stacks.assemblies import new_app
    from tests.stacks.sample_environments import write_sample

    resources: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        workspaces = [write_sample(folder / name, name) for name in SAMPLES]
        workspaces += _repository_workspaces(folder / "repository")
        for number, workspace in enumerate(workspaces):
            output = folder / f"assembly-{number}"
            app = new_app(output)
            add_environment(app, workspace=workspace)
            app.synth()
            for file in sorted(output.glob("*.template.json")):
                template = json.loads(file.read_text())
                text = _steady(json.dumps(template, indent=1, sort_keys=True))
                yield file.name.replace(".template", ""), text
                resources += _resources(file.name.removesuffix(".template.json"), template)
    yield "resources.txt", "\n".join(resources)


def _repository_workspaces(folder: Path) -> Iterator[Workspace]:
    from tests.stacks.assemblies import lock_everything

    for root in (ROOT, *sorted((ROOT / "examples").glob("*/"))):
        copy = folder / root.name
        for name in ("models", "environments", "containers"):
            if (root / name).is_dir():
                shutil.copytree(root / name, copy / name)
        for lock in copy.glob("environments/*.lock.yaml"):
            lock.unlink()
        files = (file for file in sorted(copy.glob("environments/*.yaml")) if ".template" not in file.name)
        for file in files:
            with contextlib.suppress(InvalidFilesError):  # of examples, whose training writes some files
                yield lock_everything(Project(copy), file.stem)


def _resources(stack: str, template: Mapping[str, Any]) -> Iterator[str]:
    for logical_id, resource in sorted(template.get("Resources", {}).items()):
        properties = resource.get("Properties", {})
        names = {key: value for key, value in properties.items() if re.fullmatch(r"(\w*Name|Name)", key)}
        yield f"{stack} {logical_id} {resource['Type']} {json.dumps(names, sort_keys=True)}"


def help_texts() -> Iterator[tuple[str, str]]:
    """Yield the help of each command."""
    from tritonstack.cli.registry import COMMANDS

    for name in ("", *COMMANDS):
        yield f"{name or 'tritonstack'}.txt", _run([*name.split(), "--help"], cwd=ROOT)


def error_messages() -> Iterator[tuple[str, str]]:
    """Yield what each error example prints."""
    from tests.errors.page import examples

    with tempfile.TemporaryDirectory() as temporary:
        for code, kind in examples(Path(temporary)).items():
            yield f"{code}.txt", _steady(f"{kind['example']}\n{kind['message']}\n")


def results() -> Iterator[tuple[str, str]]:
    """Yield the `--json` of each command that reads, over this repository on a local cloud."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary, "repository")
        subprocess.run(["git", "clone", "--quiet", ROOT, copy], check=True)
        for name in ("node_modules", ".tritonstack/server"):
            (copy / name).parent.mkdir(exist_ok=True)
            (copy / name).symlink_to(ROOT / name)
        try:
            for command in ("build local --no-publish", "up --detach", "deploy local --bootstrap"):
                _run(command.split(), cwd=copy, check=True)
            for command in READ:
                printed = _run(["--json", *command.split()], cwd=copy)
                yield f"{command.replace(' ', '_')}.json", _steady(printed)
        finally:
            _run(["down", "--forget"], cwd=copy)


def example_digests() -> Iterator[tuple[str, str]]:
    """Yield the digest and the worst difference of each model that the examples serve."""
    command = [sys.executable, "-m", "tools.examples", "--json"]
    examples = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    for example in examples:
        models = [f"{model['model']} {model['kind']} {model['digest']}" for model in example["models"]]
        yield f"{example['example']}.txt", "\n".join([*models, example["failure"]])


def _run(arguments: Sequence[str], *, cwd: Path, check: bool = False) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [Path(sys.executable).with_name("tritonstack"), *arguments],
        cwd=cwd,
        env={**environment, "COLUMNS": "100", "NO_COLOR": "1", "TRITONSTACK_CLOUD": "oracle"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if check and done.returncode:
        sys.exit(done.stdout)
    return done.stdout + f"exit {done.returncode}\n"


def _steady(text: str) -> str:
    for pattern, replacement in VARYING:
        text = pattern.sub(replacement, text)
    return text


def main() -> int:
    """Record, and compare if asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write the record; replaced")
    parser.add_argument("--against", type=Path, metavar="OLD", help="an earlier record to compare with")
    parser.add_argument("--examples", action="store_true", help="run the examples too")
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    record(options.folder, examples=options.examples)
    if not options.against:
        return 0
    return subprocess.run(
        ["git", "diff", "--no-index", "--stat", "--patch", options.against, options.folder], check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
