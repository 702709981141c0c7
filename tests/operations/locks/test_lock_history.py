"""Earlier locks in git: along the branch, on merged branches, in shallow clones, and without git."""

import subprocess
from pathlib import Path

import pytest

from tests.git import Repository
from tests.manifests import manifest
from tests.projects import edit, write_project
from tests.records.test_locks import BUILT
from tritonstack.base.paths import Project
from tritonstack.operations.locks.versions import LockVersion, digests_of, lock_history
from tritonstack.records.lock_writing import add_to_lock


@pytest.fixture
def repository(tmp_path):
    """Three commits, each with another digest: 11…, 22…, 33…"""
    root = tmp_path / "project"
    root.mkdir()
    write_project(root)
    repository = Repository(root)
    for number in ("11", "22", "33"):
        build(root, number)
        repository.commit(number)
    return repository


def build(root: Path, number: str) -> None:
    add_to_lock(Project(root).lock_file("dev"), [manifest("minilm", digest=number * 32)], built=BUILT)


def held(versions: object) -> list[str]:
    return [words(version) for version in versions]  # type: ignore[attr-defined]


def words(version: LockVersion) -> str:
    digests = ",".join(digest[:2] for digest in digests_of(version.lock)) if version.lock else "unreadable"
    return f"{digests} {version.commit.subject if version.commit else 'here'}"


def test_the_latest_version_comes_first(repository):
    history = lock_history(Project(repository.root), "dev")
    assert held(history.versions) == ["33 33", "22 22", "11 11"]
    assert history.gap is None


def test_uncommitted_changes_come_first(repository):
    build(repository.root, "44")
    history = lock_history(Project(repository.root), "dev")
    assert held(history.versions) == ["44 here", "33 33", "22 22", "11 11"]


def test_a_lock_removed_for_some_commits_counts_as_empty(repository):
    Project(repository.root).lock_file("dev").unlink()
    repository.commit("gone")
    build(repository.root, "44")
    repository.commit("44")
    assert held(lock_history(Project(repository.root), "dev").versions)[:3] == ["44 44", " gone", "33 33"]


def test_versions_with_other_line_endings_and_earlier_ones_are_read(repository):
    file = Project(repository.root).lock_file("dev")
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    repository.commit("CRLF")
    history = lock_history(Project(repository.root), "dev")
    assert held(history.versions) == ["33 CRLF", "33 33", "22 22", "11 11"]


def test_a_version_that_cannot_be_read_is_reported(repository):
    file = Project(repository.root).lock_file("dev")
    edit(file, "spec_hash:", "spec_hush:")
    repository.commit("broken")
    build_again = file.read_text().replace("spec_hush:", "spec_hash:")
    file.write_text(build_again)
    repository.commit("mended")
    history = lock_history(Project(repository.root), "dev")
    assert held(history.versions)[:2] == ["33 mended", "unreadable broken"]
    assert "version cannot read" in str(history.gap)
    assert "version cannot read" in str(history.known_digests().gap)


def test_a_merged_branchs_lock_counts_as_named_but_not_as_a_version(repository):
    repository.git("checkout", "-b", "feature")
    for number in ("55", "66"):
        build(repository.root, number)
        repository.commit(number)
    repository.git("checkout", "main")
    repository.git("merge", "--no-ff", "feature", "-m", "merged")
    history = lock_history(Project(repository.root), "dev")
    assert held(history.versions) == ["66 merged", "33 33", "22 22", "11 11"]
    assert {digest[:2] for digest in history.known_digests().digests} == {"11", "22", "33", "55", "66"}


def test_shallow_clone_has_incomplete_history(repository, tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(
        ["git", "clone", "--depth=1", f"file://{repository.root}", str(clone)],
        check=True,
        capture_output=True,
    )
    history = lock_history(Project(clone), "dev")
    assert held(history.versions) == ["33 33"]
    assert "shallow clone" in str(history.gap)


def test_only_the_current_lock_is_known_without_git(tmp_path):
    write_project(tmp_path)
    build(tmp_path, "11")
    history = lock_history(Project(tmp_path), "dev")
    assert held(history.versions) == ["11 here"]
    assert "not in git" in str(history.gap)
    assert history.known_digests().digests == {"11" * 32}
