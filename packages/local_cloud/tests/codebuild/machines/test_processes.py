"""What of PATH and of the settings a build in a process is shown."""

import os
from pathlib import Path

import pytest

from tritonstack.base.paths import MARKER
from tritonstack_local.codebuild.machines.processes import permitted, program_mounts


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with a project, in which the cloud runs, and its state."""
    folder = tmp_path / "home"
    (folder / "project" / "state").mkdir(parents=True)
    (folder / "project" / MARKER).touch()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder / "project")
    return folder


def shown_of(home, *path, indexes=()):
    """Return the folders that a build sees with these entries of PATH."""
    os.environ["PATH"] = os.pathsep.join(map(str, path))  # restored by the fixture
    mounts = program_mounts(server_home=home / "none", indexes=indexes)
    return {Path(mount["source"]) for mount in permitted(mounts, state=home / "project" / "state")}


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.setenv("PATH", os.defpath)


@pytest.mark.parametrize("place", ["home", "home/project"])
@pytest.mark.parametrize("name", [".bin", "shims", "bin"])
def test_programs_in_a_home_or_project_do_not_show_it(home, tmp_path, place, name):
    (tmp_path / place / name).mkdir()
    (tmp_path / place / "pyvenv.cfg").touch()  # a virtual environment in the folder itself
    found = shown_of(home, tmp_path / place / name)
    assert not {folder for folder in found if home.is_relative_to(folder)} | {home / "project"} & found
    (tmp_path / place / "pyvenv.cfg").unlink()
    assert tmp_path / place / name in shown_of(home, tmp_path / place / name)


@pytest.mark.parametrize("folder", ["node_modules/.bin", ".pyenv/shims", ".asdf/shims", "share/mise/shims"])
def test_programs_of_a_manager_see_what_they_start(home, folder):
    (home / folder).mkdir(parents=True)
    assert (home / folder).parent in shown_of(home, home / folder)


def test_no_setting_shows_a_home_project_or_state(home, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(home)
    every = ["/", tmp_path, home, home / "project", home / "project" / "state", link, f"file://{home}"]
    found = shown_of(home, *every[:-1], indexes=[*map(str, every), "http://[", "file://["])
    assert not {path for path in found if home.is_relative_to(path)} | found & {link, home / "project"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_folders_that_the_user_cannot_enter_are_left_out(home):
    (home / "closed" / "bin").mkdir(parents=True)
    (home / "closed").chmod(0)
    try:
        assert home / "closed" / "bin" not in shown_of(home, home / "closed" / "bin")
    finally:
        (home / "closed").chmod(0o700)
