"""`app.py` as the CDK CLI starts it: the same templates each time, or a clear message and exit code 2."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stacks.assemblies import ROOT, cli_context, lock_everything
from tritonstack.base.paths import Project

CDK = ROOT / "node_modules" / ".bin" / "cdk"


@pytest.fixture
def project(bare_project: Callable[[], Project]) -> Project:
    return bare_project()


def environ(**more: str) -> dict[str, str]:
    """Environment variables without AWS settings: synthesis would fail if it called AWS."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "CDK_"))}
    python = f"{Path(sys.executable).parent}{os.pathsep}{inherited['PATH']}"
    return inherited | {"PYTHONPATH": str(ROOT), "PATH": python} | more


def run_app(project: Project, *, environment: str | None, outdir: Path) -> subprocess.CompletedProcess[str]:
    context = cli_context()
    if environment is not None:
        context["env"] = environment
    return subprocess.run(
        [sys.executable, "app.py"],
        cwd=project.root,
        env=environ(CDK_CONTEXT_JSON=json.dumps(context), CDK_OUTDIR=str(outdir)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def run_cdk(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(CDK), *arguments],
        cwd=project.root,
        env=environ(NO_COLOR="1", PYTHONHASHSEED="7"),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_missing_environment_argument_lists_the_environments(project, tmp_path):
    result = run_app(project, environment=None, outdir=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith("error[TS901]: ")
    assert result.stderr.endswith("available: every, kept, sample\n")


def test_all_file_violations_are_reported_without_a_traceback(project, tmp_path):
    file = project.environment_file("sample")
    text = file.read_text().replace("ml.c7i.xlarge", "ml.c7i.extralarge").replace("removal:", "removl:")
    file.write_text(text)
    result = run_app(project, environment="sample", outdir=tmp_path)
    assert result.returncode == 2
    assert "environments/sample.yaml:5: removl: " in result.stderr
    assert "environments/sample.yaml:12: endpoints.plain.instance_type: " in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.e2e
def test_cdk_rejects_just_the_unbuilt_endpoint(project):
    rejected = run_cdk(project, "synth", "--quiet", "-c", "env=kept")
    assert rejected.returncode == 1
    assert "environments/kept.yaml:7: endpoints.plain.model: " in rejected.stderr
    assert "tritonstack build kept" in rejected.stderr
    foundation = project.root / "cdk.out/tritonstack-kept-foundation.template.json"
    assert "tritonstack-kept-artifacts-123456789012-us-east-1" in foundation.read_text()


@pytest.mark.e2e
def test_cdk_synthesizes_the_same_templates_for_the_same_commit(sample, project):
    """In another process, from another checkout, with another hash seed."""
    lock_everything(project, "sample")
    result = run_cdk(project, "synth", "--quiet", "-c", "env=sample")
    assert result.returncode == 0, result.stderr
    assert "not configured" not in result.stdout + result.stderr
    first, second = (
        {file.name: file.read_bytes() for file in folder.glob("*.template.json")}
        for folder in (sample.folder, project.root / "cdk.out")
    )
    assert len(first) == 5
    assert first == second
