"""Decisions of a promotion that depend on files only."""

import pytest

from tests.operate.two_accounts import add_model, add_prod, make_manifest
from tests.projects import add_image, edit
from tritonstack.base.error_kinds import PromotionRejectedError
from tritonstack.base.errors import UsageError
from tritonstack.base.files import short_digest
from tritonstack.base.paths import Project
from tritonstack.files.loading import load_workspace
from tritonstack.files.model.tolerance import Tolerance
from tritonstack.files.project.custom_images import endpoint_images
from tritonstack.files.records.lock_writing import add_to_lock, write_lock
from tritonstack.files.records.locks import (
    Built,
    Lock,
    LockedArtifact,
    LockedImage,
    Promoted,
    RolledBack,
    load_lock,
)
from tritonstack.files.records.manifests import ParityReport
from tritonstack.operate.promote.plans import Decision, as_promoted, decide, lock_after, require_source

MOMENT = "2026-11-22T08:30:00Z"
PROMOTED = Promoted(source="dev", by="ann", at=MOMENT)


@pytest.fixture
def files(project):
    add_prod(project)
    return project


def build(
    project: Project, environment: str = "dev", model: str = "minilm", **changes: object
) -> LockedArtifact:
    """Add an artifact to a lock as a build does; return its entry."""
    spec_hash = load_workspace(project, environment).hashes[model]
    content = f"{environment} {model} {sorted(changes.items())}".encode()
    manifest = make_manifest(model, content, spec_hash=spec_hash).model_copy(update=changes)
    file = project.lock_file(environment)
    add_to_lock(file, [manifest], built=Built(by="ann", at=MOMENT))
    return load_lock(file).record.models[model][manifest.target]


def bounded(cosine: float) -> ParityReport:
    """Return a report of a build that accepted this cosine."""
    accepted = {"y": Tolerance(cosine=cosine)}
    return ParityReport(stage="served", cases=1, min_cosine=1.0, max_absolute_error=0.0, accepted=accepted)


def decided(project: Project, *models: str) -> Decision:
    return decide(load_workspace(project, "dev"), load_workspace(project, "prod"), models)


def error_of(project: Project, *models: str) -> str:
    with pytest.raises(PromotionRejectedError) as caught:
        decided(project, *models).require_possible()
    return str(caught.value)


def test_artifacts_of_the_source_are_promoted(files):
    assert "ml.c7i.xlarge (no GPU) under Triton 25.04" in error_of(files)
    entry = build(files)
    edit(files.model_file("minilm"), "A man is eating food.", "A woman is reading.")  # older than its files
    (item,) = decided(files).entries
    assert (item.name, item.key, item.entry, item.seen) == ("minilm", "cpu", entry, None)


@pytest.mark.parametrize(
    ("own", "is_same"),
    [
        pytest.param({"promoted": PROMOTED}, True, id="promoted"),
        pytest.param({"built": Built(by="bob", at=MOMENT)}, True, id="built for the target"),
        pytest.param({}, False, id="written by hand, so it has passed no gate"),
    ],
)
def test_the_same_digest_need_not_change(files, own, is_same):
    entry = build(files)
    write_lock(files.lock_file("prod"), Lock(models={"minilm": {"cpu": entry.model_copy(update=own)}}))
    decision = decided(files)
    assert ([len(decision.entries), len(decision.same)]) == ([0, 1] if is_same else [1, 0])


def test_a_preferred_target_entry_yields_to_one_promoted_for_another_target(files):
    build(files, parity=(bounded(0.9),))
    old = build(files, "prod", digest="99" * 32, target="cpu-py312", parity=(bounded(0.9999),))
    decision = decided(files)
    (item,) = decision.entries
    (bounds,), (replaced,) = item.describe_bounds(), item.describe_conflicting()
    assert "cosine >= 0.9999 → cosine >= 0.9" in bounds
    assert f"cpu-py312 ({short_digest(old.digest)})" in replaced
    after = lock_after(load_workspace(files, "prod"), decision.entries, PROMOTED)
    assert set(after.models["minilm"]) == {"cpu"}


def test_artifacts_rolled_back_in_the_target_are_skipped_unless_named(files):
    bad = build(files)
    back = RolledBack(instead_of=bad.digest, as_of=bad.spec_hash, by="bob", at=MOMENT)
    good = bad.model_copy(update={"digest": "ee" * 32, "rolled_back": back})
    write_lock(files.lock_file("prod"), Lock(models={"minilm": {"cpu": good}}))
    decision = decided(files)
    assert (decision.entries, decision.same, decision.obstacles) == ([], [], [])
    assert [item.entry.digest for item in decision.rolled_back] == [bad.digest]
    assert [item.entry.digest for item in decided(files, "minilm").entries] == [bad.digest]


@pytest.mark.parametrize(
    ("instance", "target", "fits"),
    [
        ("ml.c7i.xlarge", "cpu", True),
        ("ml.c7i.xlarge", "cpu-py312", True),
        ("ml.c7i.xlarge", "cpu-py310", False),
        ("ml.c7i.xlarge", "sm86-25.04", False),
        ("ml.g5.xlarge", "sm86-25.04", True),
        ("ml.g5.xlarge", "sm86-25.04-py312", True),
        ("ml.g5.xlarge", "sm86-24.09", False),
        ("ml.g5.xlarge", "sm89-25.04", False),
        ("ml.g5.xlarge", "cpu", False),
    ],
)
def test_artifacts_per_machine(files, instance, target, fits):
    build(files, target=target)
    edit(files.environment_file("prod"), "ml.c7i.xlarge", instance)
    decision = decided(files)
    assert bool(decision.entries) == fits
    assert bool(decision.obstacles) != fits


def test_artifacts_built_by_the_target_are_kept_unless_named(files):
    add_model(files, "ranker", "dev", "prod")
    build(files)
    build(files, "prod", "ranker")
    decision = decided(files)
    assert [item.name for item in decision.entries] == ["minilm"]
    assert decision.built_in_target == ["ranker"]
    assert "ranker: prod runs" in error_of(files, "ranker")


def test_engines_that_the_target_cannot_load_are_rejected_before_its_deploy_would(files):
    build(files, target="sm86-25.04", tensorrt="10.3.0")
    edit(files.environment_file("prod"), "ml.c7i.xlarge", "ml.g5.xlarge")
    assert "TensorRT 10.3.0, but Triton 25.04" in error_of(files)


def test_a_rollback_in_the_source_is_not_recorded_in_the_target(files):
    entry = build(files)
    back = RolledBack(instead_of="cd" * 32, as_of=entry.spec_hash, by="bob", at=MOMENT)
    gone_back = entry.model_copy(update={"rolled_back": back})
    write_lock(files.lock_file("dev"), Lock(models={"minilm": {"cpu": gone_back}}))
    (item,) = decided(files).entries
    assert as_promoted(item, PROMOTED).rolled_back is None
    assert as_promoted(item, PROMOTED).built == entry.built


def test_only_the_configured_source_is_accepted(files):
    dev, prod = load_workspace(files, "dev"), load_workspace(files, "prod")
    assert require_source(dev, prod).source == "dev"
    with pytest.raises(UsageError, match="source for 'dev'"):
        require_source(prod, dev)
    with pytest.raises(UsageError, match="cannot promote 'dev'"):
        require_source(dev, dev)


class Images:
    """Both environments run one of the project's own images."""

    def __init__(self, project: Project) -> None:
        self.project = project
        add_image(project.root, "serving")
        for name in ("dev", "prod"):
            edit(
                project.environment_file(name),
                "    kind: ensemble\n",
                "    kind: ensemble\n    image: serving\n",
            )
        build(project)

    def tag(self, environment: str) -> str:
        (image,) = endpoint_images(self.project, load_workspace(self.project, environment).spec)
        return image.tag

    def lock(self, environment: str, tag: str, digest: str = "a", **own: Promoted) -> None:
        lock = load_lock(self.project.lock_file(environment)).record
        entry = LockedImage(digest=f"sha256:{digest * 64}", tag=tag, **own)
        write_lock(self.project.lock_file(environment), lock.with_image("serving", "cpu", entry))

    def tags(self) -> list[str]:
        """Return the tags of the promoted images."""
        entries = (item.entry for item in decided(self.project).entries)
        return [entry.tag for entry in entries if isinstance(entry, LockedImage)]


@pytest.fixture
def images(files):
    return Images(files)


def test_an_image_is_promoted_with_the_tag_of_the_target_region_unless_it_is_there(images):
    images.lock("dev", images.tag("dev"))
    assert images.tags() == [images.tag("prod")]
    images.lock("prod", images.tag("prod"))  # written by hand: it has passed no gate
    assert images.tags() == [images.tag("prod")]
    images.lock("prod", images.tag("prod"), promoted=PROMOTED)
    assert images.tags() == []
    edit(images.project.environment_file("prod"), "eu-west-1", "us-east-1")
    assert images.tag("prod") != images.tag("dev")
    assert images.tags() == [images.tag("prod")]


def test_an_image_on_another_release_must_be_built(images):
    images.lock("dev", images.tag("dev"))
    edit(images.project.environment_file("prod"), '"25.04"', '"24.09"')
    assert "Triton 24.09; dev.lock.yaml" in error_of(images.project)


def test_the_image_of_other_models_is_not_promoted(images, tmp_path):
    assert tmp_path == images.project.root
    add_model(images.project, "ranker", "dev", "prod")
    build(images.project, model="ranker")
    assert decided(images.project, "ranker").obstacles == []
