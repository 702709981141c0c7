"""The local server is installed once, completely or not at all."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tritonstack.runtime import TritonNotFoundError, find_installation, install
from tritonstack.runtime.install import hash_inputs, pinned_requirements
from tritonstack.runtime.linked_packages import LinkedPackages, find_packages


def test_every_requirement_is_pinned():
    assert all("==" in line for line in pinned_requirements())


def test_a_missing_server_names_the_remedy(tmp_path):
    with pytest.raises(TritonNotFoundError, match="tritonstack setup"):
        find_installation(home=tmp_path / "server")


def test_inputs_are_the_requirements_the_backends_and_their_libraries(tmp_path, monkeypatch):
    before = hash_inputs({})
    assert hash_inputs({}) == before
    library = LinkedPackages({"trees": "1.0"}, (tmp_path / "trees",))
    newer = replace(library, versions={"trees": "1.1"})
    moved = replace(library, entries=(tmp_path / "elsewhere/trees",))
    hashes = {hash_inputs({"fil": found}) for found in (None, library, newer, moved)}
    assert len({before, *hashes}) == 5
    changed = tmp_path / "requirements-embedded.txt"
    changed.write_text(install.REQUIREMENTS.read_text() + "# another\n")
    monkeypatch.setattr(install, "SOURCES", Path("/"))
    monkeypatch.setattr(install, "REQUIREMENTS", changed)
    assert hash_inputs({}) != before


@pytest.mark.soak
def test_killed_installation_is_repeated_and_a_finished_one_is_not(tmp_path):
    home = tmp_path / "server"
    command = [sys.executable, "-m", "tritonstack.runtime.install", "--home", str(home)]
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
    assert set(found.backends) == {"ensemble", "fil", "onnxruntime", "openvino", "python", "pytorch"}
    assert not found.missing
    assert {entry.name for entry in tmp_path.iterdir()} == {"server", ".server.lock"}

    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    assert home.stat().st_ino == first


def test_library_is_linked_with_its_dependencies_except_numpy(tmp_path):
    found = find_packages("treelite")
    assert found is not None
    assert set(found.versions) == {"treelite", "scipy", "packaging"}
    found.link_into(tmp_path / "packages")
    program = (
        "import sys; sys.path.append(sys.argv[1]); import treelite\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules} & {'scipy', 'treelite', 'torch'}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "packages")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["scipy", "treelite"]
    assert not (tmp_path / "packages/numpy").exists()


def test_missing_library_links_nothing():
    assert find_packages("no-such-distribution") is None


@pytest.mark.soak
def test_a_backend_without_its_library_is_omitted_and_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(install, "LINKED_LIBRARIES", {"pytorch": "no-such-distribution", "fil": "treelite"})
    found = install.install(home=tmp_path / "server", on_update=print)
    assert "pytorch" not in found.backends
    assert "fil" in found.backends
    assert found.why_no_backend("pytorch") == (
        "this server has no pytorch backend, because it was installed without no-such-distribution"
    )
    assert found.why_no_backend("fil") is None


def test_a_server_of_another_version_names_the_remedy(tmp_path):
    (tmp_path / "installation.json").write_text('{"version": "2.51.0"}')
    with pytest.raises(TritonNotFoundError, match=r"from another version\n.*tritonstack setup"):
        find_installation(home=tmp_path)
