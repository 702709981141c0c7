"""The command of the build job where it cannot build, and the driver check before a GPU build."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from model_build.errors import BuildMachineError
from model_build.job import BuildOrder, require_driver, run_order
from tests.model_build.tiny import write_model
from tests.projects import copy_build_source, write_project
from tritonstack.base.paths import Project, find_project
from tritonstack.facts.drivers import least_driver
from tritonstack.facts.releases import RELEASES

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


GPU = ["sm86-trt10.9", "sm86"]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Simulate a host with this output of nvidia-smi, or without nvidia-smi."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def make(printed: str | None, code: int = 0) -> None:
        program = tmp_path / "bin" / "nvidia-smi"
        program.parent.mkdir()
        if printed is not None:
            program.write_text(f"#!/bin/sh\nprintf '{printed}'\nexit {code}\n")
            program.chmod(0o755)

    return make


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_has_the_driver_that_its_cuda_needs(host, release):
    least = least_driver(RELEASES[release], sure=False)
    host(f"{least}.54.03\\n{least}.54.03\\n")
    require_driver(GPU, {"NVIDIA_TRITON_SERVER_VERSION": release})


@pytest.mark.parametrize(
    ("printed", "code", "value"),
    [
        ("535.216.01\\n", 0, "535.216.01"),
        ("470.1\\n", 0, "470.1"),
        (None, 0, "no driver"),
        ("", 0, "no driver"),
        ("NVIDIA-SMI has failed", 9, "no driver"),
    ],
)
def test_a_host_without_a_driver_that_is_new_enough_is_rejected(host, printed, code, value):
    host(printed, code)
    with pytest.raises(BuildMachineError, match=value) as caught:
        require_driver(GPU, {"NVIDIA_TRITON_SERVER_VERSION": "26.03"})
    if value[0].isdigit():
        assert str(least_driver(RELEASES["26.03"], sure=False)) in caught.value.message
        assert "builds.machines.sm86" in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("targets", "image"),
    [(["cpu-py312", "cpu"], {"NVIDIA_TRITON_SERVER_VERSION": "25.09"}), (GPU, {})],
)
def test_other_builds_request_no_driver(host, targets, image):
    host(None)
    require_driver(targets, image)


def test_the_job_checks_it_before_any_work(host, tmp_path, monkeypatch):
    host("535.1\\n")
    monkeypatch.setenv("NVIDIA_TRITON_SERVER_VERSION", "26.03")
    (tmp_path / "project").mkdir()
    events: list[dict[str, Any]] = []
    project = write_project(tmp_path / "project")
    assert run_order(project, BuildOrder(model="minilm", targets=GPU), events.append) == 1
    (event,) = events
    assert (event["event"], event["code"]) == ("failed", BuildMachineError.code)
