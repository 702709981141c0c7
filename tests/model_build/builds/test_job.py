"""The command of the build job, where it cannot build."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.model_build.tiny import write_model
from tests.projects import copy_build_source
from tritonstack.base.paths import Project, find_project

REPOSITORY = find_project(Path(__file__)).root


@pytest.fixture
def project(tmp_path: Path, tiny_folder: Path) -> Project:
    """The unpacked source archive: only the folders that builds read."""
    copy_build_source(REPOSITORY, tmp_path / "src")
    shutil.copytree(tiny_folder, tmp_path / "src" / "models" / "tiny" / "weights")
    write_model(tmp_path / "src" / "models" / "tiny", source="file://weights")
    return Project(tmp_path / "src")


def run_job(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "model_build", "--project", ".", *arguments],
        cwd=project.root,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_an_unknown_model_is_exit_2_and_one_event(project):
    result = run_job(project, "--model", "nothing", "--json-progress")
    event = json.loads(result.stdout)
    assert (result.returncode, event["event"], event["exit_code"]) == (2, "failed", 2)
    assert "'nothing'" in event["message"]
