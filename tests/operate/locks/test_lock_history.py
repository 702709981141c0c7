"""Earlier locks in git: along the branch, on merged branches, in shallow clones, and without git."""

import subprocess

import pytest

from tests.operate.locks.locked_project import LockedProject
from tests.projects import write_project
from tritonstack.base.paths import Project
from tritonstack.operate.locks.versions import LockHistory, digests_of, lock_history


@pytest.fixture
def locked(tmp_path):
    project = LockedProject(tmp_path / "project")
    project.lock("11", "22", "33")
    return project


def versions(history: LockHistory) -> list[str]:
    """Return the digests of each version, and its commit."""
    return [
        (",".join(digest[:2] for digest in digests_of(version.lock)) if version.lock else "unreadable")
        + f" {version.commit.subject if version.commit else 'here'}"
        for version in history.versions
    ]


def test_the_latest_version_comes_first_and_uncommitted_changes_before_it(locked):
    assert versions(locked.history) == ["33 33", "22 22", "11 11"]
    assert locked.history.gap is None
    locked.build("44")
    assert versions(locked.history) == ["44 here", "33 33", "22 22", "11 11"]


def test_a_lock_removed_for_some_commits_counts_as_empty(locked):
    locked.lock_file.unlink()
    locked.repository.commit("gone")
    locked.lock("44")
    assert versions(locked.history)[:3] == ["44 44", " gone", "33 33"]


def test_versions_with_other_line_endings_and_earlier_ones_are_read(locked):
    locked.lock_file.write_bytes(locked.lock_file.read_bytes().replace(b"\n", b"\r\n"))
    locked.repository.commit("CRLF")
    assert versions(locked.history) == ["33 CRLF", "33 33", "22 22", "11 11"]


def test_a_version_that_cannot_be_read_is_reported(locked):
    locked.break_lock()
    locked.repository.commit("mended")
    assert versions(locked.history)[:2] == ["33 mended", "unreadable broken"]
    for gap in (locked.history.gap, locked.history.known_digests().gap):
        assert "version cannot read" in str(gap)


def test_a_merged_branchs_lock_counts_as_named_but_not_as_a_version(locked):
    locked.repository.git("checkout", "-b", "feature")
    locked.lock("55", "66")
    locked.repository.git("checkout", "main")
    locked.repository.git("merge", "--no-ff", "feature", "-m", "merged")
    assert versions(locked.history) == ["66 merged", "33 33", "22 22", "11 11"]
    known = locked.history.known_digests().digests
    assert {digest[:2] for digest in known} == {"11", "22", "33", "55", "66"}


def test_shallow_clone_has_incomplete_history(locked, tmp_path):
    source, clone = f"file://{locked.project.root}", str(tmp_path / "clone")
    subprocess.run(["git", "clone", "--depth=1", source, clone], check=True, capture_output=True)
    history = lock_history(Project(tmp_path / "clone"), "dev")
    assert versions(history) == ["33 33"]
    assert "shallow clone" in str(history.gap)


def test_only_the_current_lock_is_known_without_git(locked, tmp_path):
    project = write_project(tmp_path)
    project.lock_file("dev").write_text(locked.lock_file.read_text())
    history = lock_history(project, "dev")
    assert versions(history) == ["33 here"]
    assert "not in git" in str(history.gap)
    assert history.known_digests().digests == {"33" * 32}
