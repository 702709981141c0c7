"""Valid and invalid locks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.files.one_endpoint import coded, names
from tests.files.records.test_locks import BUILT
from tests.manifests import manifest, measured
from tests.projects import edit, write_project
from tests.promoted_locks import add_promoted
from tritonstack.base.errors import FileViolation
from tritonstack.base.naming import artifact_prefix
from tritonstack.base.paths import Project
from tritonstack.base.yaml import Document
from tritonstack.facts.releases import python_tag
from tritonstack.files.checks.locks import (
    Findings,
    LockDigests,
    check_catalog,
    check_locks,
    check_manifests,
    check_promotions,
    mismatches,
)
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.names import model_names
from tritonstack.files.records.lock_writing import LockChange, add_to_lock, replace_entries, write_lock
from tritonstack.files.records.locks import Lock, Promoted, RolledBack, entry_of, load_lock
from tritonstack.files.records.manifests import MANIFEST_NAME

DIGEST = "ab" * 32
PROMOTED = Promoted(source="dev", by="bob", at="2026-11-24T08:30:00Z")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a lock whose one entry is current, and a second environment."""
    project = write_project(tmp_path)
    text = project.environment_file("dev").read_text()
    project.environment_file("prod").write_text(text.replace("name: dev", "name: prod"))
    add_to_lock(project.lock_file("dev"), [current(project)], built=BUILT)
    return project


def current(project: Project, **changes: Any) -> Any:
    hashes = load_workspace(project, "dev").hashes
    return manifest("minilm", spec_hash=hashes["minilm"], **measured(), **changes)


def lock(project: Project, environment: str = "dev") -> Document[Lock]:
    return load_lock(project.lock_file(environment))


def catalog(project: Project, environment: str = "dev") -> Findings:
    """Check a lock against the files of the project."""
    return check_catalog(load_workspace(project, environment), model_names(project))


def only_note(findings: Findings, words: str) -> FileViolation:
    """Return the one note, which names these words; nothing is a violation."""
    assert findings.violations == []
    (note,) = findings.notes
    assert names(note, words), note
    return note


def test_unmodified_lock_has_no_violations(project: Project) -> None:
    findings = catalog(project)
    assert (findings.violations, findings.notes) == ([], [])


def test_entry_of_a_missing_model(project: Project) -> None:
    add_to_lock(project.lock_file("dev"), [manifest("minilmm")], built=BUILT)
    (violation,) = catalog(project).violations
    assert coded(violation) == ("models.minilmm.cpu", "TS201")
    assert names(violation, "'minilmm' 'minilm'?")


def test_an_unused_entry_is_not_an_error(project: Project) -> None:
    add_to_lock(project.lock_file("dev"), [manifest("minilm", target="sm86-25.04")], built=BUILT)
    note = only_note(catalog(project), "dev minilm")
    assert (note.line, *coded(note)) == (17, "models.minilm.sm86-25.04", "TS403")


def test_a_hidden_entry_is_reported(project: Project) -> None:
    python = python_tag(load_workspace(project, "dev").spec.release.python)
    old = entry_of(manifest("minilm", target=f"cpu-{python}", digest="99" * 32))
    held = lock(project).record.models["minilm"]
    write_lock(project.lock_file("dev"), Lock(models={"minilm": {**held, f"cpu-{python}": old}}))
    note = only_note(catalog(project), f"cpu-{python} minilm")
    assert coded(note) == ("models.minilm.cpu", "TS403")


def test_promoted_entries_may_be_outdated_and_are_reported(project: Project) -> None:
    old = entry_of(manifest("minilm", spec_hash="77" * 32))
    add_promoted(project.lock_file("prod"), PROMOTED, [LockChange("minilm", "cpu", old, None)])
    note = only_note(catalog(project, "prod"), "abababababab minilm dev")
    assert coded(note) == ("models.minilm.cpu", "TS402")
    assert "`tritonstack build prod minilm`" in str(note.remedy)
    with project.environment_file("prod").open("a") as stream:
        stream.write("promotion: {source: dev}\n")
    note = only_note(catalog(project, "prod"), "abababababab")
    assert "`tritonstack promote dev prod minilm`" in str(note.remedy)


def test_a_rolled_back_entry_may_be_outdated_until_its_model_changes(project: Project) -> None:
    workspace = load_workspace(project, "dev")
    seen = lock(project).record.models["minilm"]["cpu"]
    back = RolledBack(
        instead_of=DIGEST, as_of=workspace.hashes["minilm"], by="ann", at="2026-11-24T08:30:00Z"
    )
    old = entry_of(manifest("minilm", spec_hash="77" * 32, digest="cd" * 32))
    entry = old.model_copy(update={"rolled_back": back})
    replace_entries(project.lock_file("dev"), [LockChange("minilm", "cpu", entry, seen)])
    note = only_note(catalog(project), "cdcdcdcdcdcd ann abababababab 2026-11-24T08:30:00Z")
    assert coded(note) == ("models.minilm.cpu", "TS402")
    assert not entry.serves_for("88" * 32)


def lay_manifest(project: Project, **changes: Any) -> None:
    made = current(project, **changes)
    folder = project.artifacts_dir / artifact_prefix("minilm", DIGEST)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST_NAME).write_text(made.to_json())


def test_a_local_manifest_that_contradicts_the_lock(project: Project) -> None:
    lay_manifest(project)
    assert check_manifests(project, lock(project)) == []
    lay_manifest(project, archive_bytes=7)
    (violation,) = check_manifests(project, lock(project))
    assert (violation.line, *coded(violation)) == (5, "models.minilm.cpu.archive_bytes", "TS403")
    assert names(violation, f"1 7 {MANIFEST_NAME}")


def test_manifest_of_another_version_is_ignored(project: Project) -> None:
    lay_manifest(project)
    edit(
        project.artifacts_dir / artifact_prefix("minilm", DIGEST) / MANIFEST_NAME,
        '"format": 1',
        '"format": 9',
    )
    assert check_manifests(project, lock(project)) == []


@pytest.mark.parametrize(
    ("changes", "fact", "untrue"),
    [
        ({"digest": "cd" * 32}, "digest", True),
        ({"target": "sm86-25.04"}, "digest", True),
        ({"unpacked_bytes": 5}, "unpacked_bytes", True),
        ({"tensorrt": "10.9.0"}, "tensorrt", True),
        ({"instances": 3}, "instances", True),
        (measured(cosine=0.9), "figures", True),
        (measured(cosine=0.99991), "figures", False),
        (measured(p99=400.0), "figures", False),
        ({"parity": ()}, "figures", True),
        ({"unverified": ("compared with itself only",)}, "unverified", True),
        ({"spec_hash": "77" * 32}, "spec_hash", False),
    ],
)
def test_differences_between_lock_and_manifest(changes: dict[str, Any], fact: str, untrue: bool) -> None:
    told_by_lock = manifest("m", **measured())
    differing = list(
        mismatches(entry_of(told_by_lock), told_by_lock.model_copy(update=changes), target="cpu")
    )
    assert {(unlike.fact, unlike.untrue) for unlike in differing} == {(fact, untrue)}


def test_an_early_manifest_does_not_know_its_instances() -> None:
    early = manifest("m", **measured())
    entry = entry_of(early).model_copy(update={"instances": 3, "copies_bytes": 9})
    assert list(mismatches(entry, early, target="cpu")) == []


def test_builds_of_the_same_bytes_keep_separate_figures() -> None:
    one, other = manifest("m", **measured()), manifest("m", spec_hash="77" * 32, **measured(cosine=0.5))
    assert not any(unlike.untrue for unlike in mismatches(entry_of(one), other, target="cpu"))


def test_two_locks_that_contradict_each_other(project: Project) -> None:
    add_to_lock(project.lock_file("prod"), [current(project, archive_bytes=2)], built=BUILT)
    locks = {name: lock(project, name) for name in ("dev", "prod")}
    (violation,) = check_locks(locks)
    assert violation.file.name == "prod.lock.yaml"
    assert coded(violation) == ("models.minilm.cpu.archive_bytes", "TS403")
    assert names(violation, "abababababab 2 1 dev.lock.yaml:4")


def promoted_from(
    project: Project, source: str, held: LockDigests
) -> tuple[list[FileViolation], list[FileViolation]]:
    promoted = PROMOTED.model_copy(update={"source": source})
    entry = lock(project).record.models["minilm"]["cpu"]
    add_promoted(project.lock_file("prod"), promoted, [LockChange("minilm", "cpu", entry, None)])
    found = check_promotions(lock(project, "prod"), ["dev", "prod"], lambda _: held)
    return found.violations, found.notes


@pytest.mark.parametrize(
    ("source", "held", "violation", "note"),
    [
        ("dev", LockDigests(frozenset({DIGEST})), "", ""),
        ("dev", LockDigests(frozenset({"cd" * 32})), f"'dev' {DIGEST[:19]}", ""),
        ("dev", LockDigests(frozenset(), "this is a shallow clone"), "", "shallow"),
        ("dve", LockDigests(frozenset()), "'dve' 'dev'?", ""),
        ("staging", LockDigests(frozenset({DIGEST})), "", ""),  # removed; its lock had the digest
    ],
    ids=["in the lock", "not in the lock", "history incomplete", "unknown", "removed"],
)
def test_a_promoted_entry_is_or_was_in_the_lock_of_its_source(
    project: Project, source: str, held: LockDigests, violation: str, note: str
) -> None:
    for found, words in zip(promoted_from(project, source, held), (violation, note), strict=True):
        assert [coded(item) for item in found] == [("models.minilm.cpu.promoted", "TS403")] * bool(words)
        assert all(names(item, words) for item in found)
