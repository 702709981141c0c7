"""The embedded server is installed once, completely or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from triton_runtime import TritonNotFoundError, find_installation, install
from triton_runtime.install import hash_inputs, pinned_requirements


def test_every_requirement_is_pinned() -> None:
    assert all("==" in line for line in pinned_requirements())


def test_a_missing_server_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(TritonNotFoundError, match="make server"):
        find_installation(home=tmp_path / "server")


def test_inputs_are_the_requirements_and_the_backends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = hash_inputs()
    assert hash_inputs() == before
    changed = tmp_path / "requirements-embedded.txt"
    changed.write_text(install.REQUIREMENTS.read_text() + "# another\n")
    monkeypatch.setattr(install, "SOURCES", Path("/"))
    monkeypatch.setattr(install, "REQUIREMENTS", changed)
    assert hash_inputs() != before


@pytest.mark.e2e
def test_a_killed_installation_is_done_again_and_a_finished_one_is_not(tmp_path: Path) -> None:
    home = tmp_path / "server"
    command = [sys.executable, "-m", "triton_runtime.install", "--home", str(home)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as killed:
        while not (tmp_path / ".server.new/python").exists():
            assert killed.poll() is None
            time.sleep(0.01)
        killed.kill()
    assert not home.exists()

    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    first = home.stat().st_ino
    found = find_installation(home=home)
    assert (found.kind, found.version, found.release) == ("embedded", "2.51.0", "24.10")
    assert set(found.backends) == {"ensemble", "onnxruntime", "python"}
    assert {entry.name for entry in tmp_path.iterdir()} == {"server", ".server.lock"}

    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    assert home.stat().st_ino == first
