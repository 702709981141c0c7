"""The lock: concurrent writers and kept provenance."""

from __future__ import annotations

import multiprocessing
import subprocess
from pathlib import Path

import pytest

from tests.manifests import manifest, measured
from tests.promoted_locks import add_promoted
from tritonstack.base.errors import InvalidFilesError
from tritonstack.files.records.lock_writing import (
    LockChange,
    LockChangedError,
    add_image_to_lock,
    add_to_lock,
    write_lock,
)
from tritonstack.files.records.locks import (
    Built,
    Figures,
    Lock,
    LockedArtifact,
    LockedImage,
    Promoted,
    figures_of,
    load_lock,
    parse_lock,
)

WRITERS, ARTIFACTS = 3, 8


BUILT = Built(by="ann", at="2026-11-22T08:30:00Z", commit="12" * 20)
LATER = Built(by="bob", at="2026-11-23T08:30:00Z", commit="34" * 20)
PROMOTED = Promoted(source="dev", by="bob", at="2026-11-24T08:30:00Z")


def write(file: Path, writer: int) -> None:
    for number in range(ARTIFACTS):
        add_to_lock(file, [manifest(f"m{writer}-{number}")])


def test_concurrent_changes_of_another_build_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "environments/dev.lock.yaml"
    processes = multiprocessing.get_context("fork")
    writers = [processes.Process(target=write, args=(file, number)) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(load_lock(file).record.models) == WRITERS * ARTIFACTS
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "environments/dev.lock.yaml"


def entry(file: Path, model: str = "m", target: str = "cpu") -> LockedArtifact:
    return load_lock(file).record.models[model][target]


def test_entry_records_the_builder_and_the_measurements(file: Path) -> None:
    add_to_lock(file, [manifest("m", **measured(cosine=0.75, p99=2.5))], built=BUILT)
    assert entry(file).built == BUILT
    assert entry(file).figures == Figures(min_cosine=0.75, max_absolute_error=1e-07, p99_ms=2.5)
    assert entry(file).promoted is None


def test_entry_records_why_an_artifact_is_unverified(file: Path) -> None:
    reasons = ("y is not proven", "nor z")
    add_to_lock(file, [manifest("m", unverified=reasons)], built=BUILT)
    assert entry(file).unverified == "; ".join(reasons)
    add_to_lock(file, [manifest("m", unverified=(), spec_hash="01" * 32)], built=BUILT)
    assert entry(file).unverified is None


def test_only_answers_of_the_packed_archive_are_compared() -> None:
    assert figures_of(manifest("m", **measured())) == Figures(
        min_cosine=0.9999, max_absolute_error=1e-07, p99_ms=4.5
    )
    assert figures_of(manifest("m")) is None


def test_building_the_same_digest_again_changes_nothing(file: Path) -> None:
    add_to_lock(file, [manifest("m", **measured())], built=BUILT)
    before = file.read_bytes()
    assert add_to_lock(file, [manifest("m", **measured(p99=99.0))], built=LATER) is False
    assert file.read_bytes() == before


def test_another_digest_has_its_own_provenance(file: Path) -> None:
    add_to_lock(file, [manifest("m", **measured())], built=BUILT)
    add_to_lock(file, [manifest("m", digest="99" * 32)], built=LATER)
    assert (entry(file).built, entry(file).figures) == (LATER, None)


def test_facts_outside_the_digest_can_change_and_keep_provenance(file: Path) -> None:
    add_to_lock(file, [manifest("m", **measured())], built=BUILT)
    add_to_lock(file, [manifest("m", spec_hash="77" * 32, **measured())], {"m": {"spec": "x"}}, built=LATER)
    found = entry(file)
    assert (found.spec_hash, found.built_from, found.built) == ("77" * 32, {"spec": "x"}, BUILT)


def test_an_entry_without_provenance_gains_it(file: Path) -> None:
    write_lock(file, Lock().with_artifact(manifest("m")))
    assert add_to_lock(file, [manifest("m", **measured())], built=LATER)
    assert (entry(file).built, entry(file).figures) == (LATER, figures_of(manifest("m", **measured())))


def test_concurrent_replacement_of_an_existing_entry_is_kept(file: Path) -> None:
    add_to_lock(file, [manifest("m", digest="99" * 32)], built=BUILT)
    found, made = manifest("m"), manifest("n")
    begun = Lock().with_artifact(found).with_artifact(made)
    assert add_to_lock(file, [found, made], built=LATER, initial_lock=begun)
    models = load_lock(file).record.models
    assert (models["m"]["cpu"].digest, models["m"]["cpu"].built) == ("99" * 32, BUILT)
    assert models["n"]["cpu"].digest == made.digest


@pytest.mark.parametrize(("before", "after"), [("cpu-py312", "cpu"), ("cpu", "cpu-py312")])
def test_build_for_another_target_replaces_the_preferred_entry(file: Path, before: str, after: str) -> None:
    old = [manifest("m", target=target, digest="99" * 32) for target in (before, "sm86-25.04-py312")]
    add_to_lock(file, old, built=BUILT)
    add_to_lock(file, [manifest("m", target=after)], built=LATER)
    lock = load_lock(file).record
    assert set(lock.models["m"]) == {after, "sm86-25.04-py312"}
    assert lock.find_target("m", ("cpu-py312", "cpu")) == after


def test_an_old_lock_of_two_targets_is_fixed_by_the_next_build(file: Path) -> None:
    """Earlier versions left both, and every build found the older one first."""
    old, new = manifest("m", target="cpu-py312", digest="99" * 32), manifest("m")
    both = {found.target: Lock().with_artifact(found).models["m"][found.target] for found in (old, new)}
    lock = Lock(models={"m": both})
    write_lock(file, lock)
    assert add_to_lock(file, [new], built=LATER, initial_lock=lock)
    assert set(load_lock(file).record.models["m"]) == {"cpu"}


def test_concurrently_replaced_target_is_not_restored(file: Path) -> None:
    old, new = manifest("m", target="cpu-py312", digest="99" * 32), manifest("m")
    add_to_lock(file, [new], built=BUILT)
    assert not add_to_lock(file, [old], built=LATER, initial_lock=Lock().with_artifact(old))
    assert set(load_lock(file).record.models["m"]) == {"cpu"}


def test_promotion_does_not_overwrite_concurrent_changes(file: Path) -> None:
    add_to_lock(file, [manifest("m")], built=BUILT)
    target = file.with_name("prod.lock.yaml")
    add_to_lock(target, [manifest("m", target="cpu-py312", digest="99" * 32)], built=LATER)
    unseen = LockChange("m", "cpu", entry(file), None)
    with pytest.raises(LockChangedError, match="m for cpu-py312"):
        add_promoted(target, PROMOTED, [unseen])
    seen = LockChange("m", "cpu", entry(file), None, load_lock(target).record.conflicting("m", "cpu"))
    assert add_promoted(target, PROMOTED, [seen])
    assert set(load_lock(target).record.models["m"]) == {"cpu"}


def test_promoted_entry_records_its_source_and_keeps_provenance(file: Path) -> None:
    add_to_lock(file, [manifest("m", **measured())], built=BUILT)
    target = file.with_name("prod.lock.yaml")
    assert add_promoted(target, PROMOTED, [LockChange("m", "cpu", entry(file), None)])
    found = entry(target)
    assert (found.promoted, found.built, found.figures) == (PROMOTED, BUILT, entry(file).figures)


def test_second_of_two_concurrent_promotions_fails_and_writes_nothing(file: Path) -> None:
    add_to_lock(file, [manifest("m"), manifest("n")], built=BUILT)
    target = file.with_name("prod.lock.yaml")
    mine = [LockChange(name, "cpu", entry(file, name), None) for name in "nm"]
    add_promoted(target, PROMOTED, mine[1:])
    before = target.read_bytes()
    with pytest.raises(LockChangedError, match=r"m for cpu .*abab.* bob .*2026-11-24"):
        add_promoted(target, PROMOTED, mine)
    assert target.read_bytes() == before


def test_a_promotion_over_a_removed_entry_is_rejected(file: Path) -> None:
    add_to_lock(file, [manifest("m")], built=BUILT)
    with pytest.raises(LockChangedError, match=r"m for cpu .*removed"):
        add_promoted(
            file.with_name("prod.lock.yaml"), PROMOTED, [LockChange("m", "cpu", entry(file), entry(file))]
        )


def test_images_have_provenance_and_promotions_too(file: Path) -> None:
    image = LockedImage(digest=f"sha256:{'cd' * 32}", tag="serving-1")
    assert add_image_to_lock(file, "serving", "gpu", image, built=BUILT)
    assert add_image_to_lock(file, "serving", "gpu", image, built=LATER) is False
    locked = load_lock(file).record.images["serving"]["gpu"]
    assert locked.built == BUILT
    target = file.with_name("prod.lock.yaml")
    add_promoted(target, PROMOTED, [LockChange("serving", "gpu", locked, None)])
    found = load_lock(target).record.images["serving"]["gpu"]
    assert (found.digest, found.promoted) == (image.digest, PROMOTED)


def test_an_image_restored_during_a_build_is_kept(file: Path) -> None:
    found, old = (LockedImage(digest=f"sha256:{number * 32}", tag="serving-1") for number in ("cd", "ef"))
    add_image_to_lock(file, "serving", "gpu", found, built=BUILT)
    begun = load_lock(file).record
    add_image_to_lock(file, "serving", "gpu", old, built=BUILT)
    assert not add_image_to_lock(file, "serving", "gpu", found, built=LATER, initial_lock=begun)
    assert load_lock(file).record.images["serving"]["gpu"].digest == old.digest
    newer = LockedImage(digest=f"sha256:{'12' * 32}", tag="serving-2")
    assert add_image_to_lock(file, "serving", "gpu", newer, built=LATER, initial_lock=begun)
    assert load_lock(file).record.images["serving"]["gpu"].digest == newer.digest


def test_git_merges_two_new_entries(tmp_path: Path) -> None:
    """Three adjacent models; two branches rebuild the outer ones."""
    file = tmp_path / "dev.lock.yaml"

    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=ann", "-c", "user.email=ann@example.com")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--initial-branch", "main")
    add_to_lock(file, [manifest(name, **measured()) for name in ("a", "b", "c")], built=BUILT)
    git("add", ".")
    git("commit", "-m", "all")
    for name in ("a", "c"):
        git("checkout", "-b", name, "main")
        add_to_lock(file, [manifest(name, digest="99" * 32, **measured())], built=LATER)
        git("commit", "-am", name)
    git("merge", "a")
    merged = load_lock(file).record.models
    assert [merged[name]["cpu"].built for name in ("a", "b", "c")] == [LATER, BUILT, LATER]


def test_seals_of_version_0_1_0_are_dropped(file: Path) -> None:
    """Also beside a list of uncommitted files, and in entries of images."""
    built = Built(by="ann", at="2026-11-22T08:30:00Z", uncommitted=("models/seal/model.yaml",))
    add_to_lock(file, [manifest("seal", **measured())], built=built)
    add_image_to_lock(file, "serving", "gpu", LockedImage(digest=f"sha256:{'cd' * 32}", tag="1"), built=built)
    text, lock = file.read_text(), load_lock(file).record
    sealed = text.replace("      digest:", "      seal: 7894b8fdab36\n      digest:")
    assert sealed.count("seal: ") == 2
    file.write_text(sealed)
    assert load_lock(file).record == lock
    assert write_lock(file, load_lock(file).record)
    assert file.read_text() == text
    for invalid in ("models: [seal]\n", "models: {seal: {cpu: seal}}\n", "seal: 1\n", "[seal]\n"):
        with pytest.raises(InvalidFilesError):
            parse_lock(invalid, file)
