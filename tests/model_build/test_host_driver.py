"""A GPU build checks the host's driver first."""

from pathlib import Path
from typing import Any

import pytest

from model_build.host_driver import DriverError, require_driver
from model_build.job import BuildOrder, run_order
from tests.projects import write_project
from tritonstack.reference.drivers import least_driver
from tritonstack.reference.releases import RELEASES

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
    image = {"NVIDIA_TRITON_SERVER_VERSION": release}
    host(f"{least}.54.03\\n{least}.54.03\\n")
    require_driver(GPU, image)


@pytest.mark.parametrize(
    ("release", "driver"), [("25.09", "535.216.01"), ("26.03", "470.1"), ("25.04", "418.1")]
)
def test_an_old_driver_is_rejected_with_a_message(host, release, driver):
    host(f"{driver}\\n")
    with pytest.raises(DriverError) as caught:
        require_driver(GPU, {"NVIDIA_TRITON_SERVER_VERSION": release})
    least = least_driver(RELEASES[release], sure=False)
    assert {str(least), driver} <= set(caught.value.message.replace(";", "").split())
    assert "builds.machines.sm86" in str(caught.value.remedy)


@pytest.mark.parametrize(("printed", "code"), [(None, 0), ("", 0), ("NVIDIA-SMI has failed", 9)])
def test_host_image_without_a_driver_is_rejected(host, printed, code):
    host(printed, code)
    with pytest.raises(DriverError, match="no driver"):
        require_driver(GPU, {"NVIDIA_TRITON_SERVER_VERSION": "25.09"})


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
    assert (event["event"], event["code"]) == ("failed", DriverError.code)
