"""The local server is installed once, completely or not at all."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tritonstack.triton import TritonNotFoundError, find_installation, install
from tritonstack.triton.install import LinkedPackages, find_packages, hash_inputs, pinned_requirements


def test_every_requirement_is_pinned():
    assert all("==" in line for line in pinned_requirements())


def test_inputs_are_the_requirements_the_backends_and_their_libraries(tmp_path, monkeypatch):
    before = hash_inputs({})
    assert hash_inputs({}) == before
    library = LinkedPackages({"trees": "1.0"}, (tmp_path / "trees",))
    newer = replace(library, versions={"trees": "1.1"})
    moved = replace(library, entries=(tmp_path / "elsewhere/trees",))
    hashes = {hash_inputs({"fil": packages}) for packages in (None, library, newer, moved)}
    assert len({before, *hashes}) == 5
    changed = tmp_path / "requirements-embedded.txt"
    changed.write_text(install.REQUIREMENTS.read_text() + "# another\n")
    monkeypatch.setattr(install, "SOURCES", Path("/"))
    monkeypatch.setattr(install, "REQUIREMENTS", changed)
    assert hash_inputs({}) != before


@pytest.mark.soak
def test_killed_installation_is_repeated_and_a_finished_one_is_not(tmp_path):
    home = tmp_path / "server"
    command = [sys.executable, "-m", "tritonstack.triton.install", "--home", str(home)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        while not (tmp_path / ".server.new/python").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    assert not home.exists()

    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    first = home.stat().st_ino
    installation = find_installation(home=home)
    assert (installation.version, installation.release) == ("2.51.0", "24.10")
    names = {"ensemble", "fil", "onnxruntime", "openvino", "python", "pytorch"}
    assert (set(installation.backends), installation.missing) == (names, {})
    assert {entry.name for entry in tmp_path.iterdir()} == {"server", ".server.lock"}

    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    assert home.stat().st_ino == first


def test_library_is_linked_with_its_dependencies_except_numpy(tmp_path):
    assert find_packages("no-such-distribution") is None
    packages = find_packages("treelite")
    assert packages is not None
    assert set(packages.versions) == {"treelite", "scipy", "packaging"}
    packages.link_into(tmp_path / "packages")
    program = (
        "import sys; sys.path.append(sys.argv[1]); import treelite\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules} & {'scipy', 'treelite', 'torch'}))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "packages")]
    assert subprocess.check_output(command, text=True).split() == ["scipy", "treelite"]
    assert not (tmp_path / "packages/numpy").exists()


@pytest.mark.soak
def test_a_backend_without_its_library_is_omitted_and_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(install, "LINKED_LIBRARIES", {"pytorch": "no-such-distribution", "fil": "treelite"})
    installation = install.install(home=tmp_path / "server", on_update=print)
    assert "pytorch" not in installation.backends
    assert "no-such-distribution" in installation.why_no_backend("pytorch")
    assert installation.why_no_backend("fil") is None


def test_a_missing_server_and_one_of_another_version_are_not_found(tmp_path):
    with pytest.raises(TritonNotFoundError):
        find_installation(home=tmp_path)
    (tmp_path / "installation.json").write_text('{"version": "2.51.0"}')
    with pytest.raises(TritonNotFoundError, match="tritonstack setup"):
        find_installation(home=tmp_path)
