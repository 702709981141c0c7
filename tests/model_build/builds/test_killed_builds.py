"""A build that is killed at any point leaves nothing that looks complete."""

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from model_build.build import BuildFolders
from model_build.store.artifacts import ArtifactStore, verify_artifact
from tests.model_build.builds.killed_build import EVERYWHERE
from tests.model_build.environments.wheels import write_wheel

pytestmark = pytest.mark.soak


def build(where: str, folder: Path, folders: BuildFolders) -> subprocess.CompletedProcess[str]:
    places = [folder / "model", folders.artifacts, folders.cache, folders.server]
    return subprocess.run(
        [sys.executable, "-m", "tests.model_build.builds.killed_build", where, *map(str, places)],
        env={**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder / "index")},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folders(tmp_path: Path, folders: BuildFolders) -> BuildFolders:
    """Folders without wheels: a build is killed while it downloads them, too."""
    return dataclasses.replace(folders, cache=tmp_path / "empty-cache")


def test_build_succeeds_after_kills_at_every_step(tmp_path, folders):
    """One folder for all, so that every build meets the leftovers of all killed ones."""
    write_wheel(tmp_path / "index", "plain", "1.0")
    store = ArtifactStore(artifacts_dir=folders.artifacts, model="plain")
    for where in EVERYWHERE:
        killed = build(where, tmp_path, folders)
        assert killed.returncode == -signal.SIGKILL, f"{where}: {killed.stdout}{killed.stderr}"
        assert store.folders() == [], where

    built = build("nowhere", tmp_path, folders)
    assert built.returncode == 0, built.stderr
    (folder,) = store.folders()
    assert verify_artifact(folder).digest == built.stdout.strip()
    (environment,) = verify_artifact(folder).environments
    assert environment.path == "plain/env.tar.gz"
    assert not list((folders.artifacts / ".building").glob("*/"))
    assert not list(folders.cache.glob("*/.*.new"))

    elsewhere = BuildFolders(tmp_path / "other-artifacts", tmp_path / "other-cache", folders.server)
    assert build("nowhere", tmp_path, elsewhere).stdout == built.stdout
