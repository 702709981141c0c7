"""Record the repository that this version creates, for the upgrade test of later versions.

Run it at each release:

    python -m tests.packaging.recording

It needs the embedded Triton server, because the record includes a lock.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from tests.packaging.wheels import PROJECTS, Installed, borrow_everything, build_wheel, install
from tritonstack.base.paths import find_project

RECORDS = Path(__file__).parent / "repositories"
"""One folder per version: its repository, and what a later version has to keep."""
KEPT = "kept.json"
KEPT_TYPES = frozenset(
    f"AWS::{name}"
    for name in (
        "DynamoDB::Table",
        "ECR::Repository",
        "KMS::Key",
        "Logs::LogGroup",
        "S3::Bucket",
        "SageMaker::Endpoint",
        "SNS::Topic",
        "SQS::Queue",
    )
)
"""Resources that hold data, or that callers know by name. Another logical id would replace them."""


def kept_resources(installed: Installed, repository: Path, environment: str) -> dict[str, dict[str, str]]:
    """Synthesize an environment; return the types of the kept resources by stack and logical id."""
    with tempfile.TemporaryDirectory() as folder:
        flags = json.loads((repository / "cdk.json").read_text())["context"]
        context = json.dumps({**flags, "env": environment})
        ended = installed.run("tritonstack-app", cwd=repository, CDK_CONTEXT_JSON=context, CDK_OUTDIR=folder)
        assert ended.returncode == 0, ended.stderr
        templates = {
            file.name.removesuffix(".template.json"): json.loads(file.read_text())["Resources"]
            for file in sorted(Path(folder).glob("*.template.json"))
        }
    return {
        stack: {key: item["Type"] for key, item in sorted(resources.items()) if item["Type"] in KEPT_TYPES}
        for stack, resources in templates.items()
    }


def record(installed: Installed, version: str) -> Path:
    """Write the record of a version from its wheels."""
    target = RECORDS / version
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        home.mkdir()
        (home / "server").symlink_to(find_project(Path(__file__)).server_dir)

        def run(*arguments: str, cwd: Path) -> None:
            command = ("tritonstack", *arguments)
            ended = installed.run(*command, cwd=cwd, timeout=900, TRITONSTACK_HOME=str(home))
            assert ended.returncode == 0, ended.stderr

        run("init", "shop", "--example", "python", cwd=Path(folder))
        run("build", "local", "--no-publish", cwd=Path(folder, "shop"))
        shutil.copytree(Path(folder, "shop"), target)
    resources = kept_resources(installed, target, "local")
    (target / KEPT).write_text(json.dumps(resources, indent=2) + "\n")
    return target


def main() -> None:
    """Build the wheels of this source tree, and record what they create."""
    with tempfile.TemporaryDirectory() as folder:
        wheels = {name: build_wheel(project, Path(folder)) for name, project in PROJECTS.items()}
        installed = install(Path(folder, "environment"), wheels.values())
        borrow_everything(installed)
        version = wheels["tritonstack"].name.split("-")[1]
        print(os.path.relpath(record(installed, version)))


if __name__ == "__main__":
    main()
