"""A commit is named only if it contains all files that matter; others are reported as uncommitted."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.git import Repository
from tests.manifests import manifest
from tests.projects import add_image, edit
from tritonstack.base.paths import Project
from tritonstack.base.revisions import BUILD_PINS, is_committed, is_hashed, short_commit
from tritonstack.files.loading import ProjectFiles, load_workspace, sample_instance
from tritonstack.files.records.lock_writing import add_to_lock, attest_builds
from tritonstack.files.records.locks import Built, Lock, load_lock
from tritonstack.operate.shared.checkout import CheckoutError
from tritonstack.operate.shared.events import built_now, new_event
from tritonstack.operate.shared.revisions import (
    build_revision_of,
    change_revision_of,
    require_unchanged,
    revision_of,
)

TEMPLATE = """\
template: {locks: dev, purpose: previews}
name: ${name}
account: "111111111111"
region: eu-west-1
triton_release: "25.04"
removal: destroy
endpoints:
  search: {kind: ensemble, model: minilm, instance_type: ml.c7i.xlarge, image: serving}
"""


@pytest.fixture
def repository(project):
    """A project in git with every file that can matter, and a model that is not served."""
    root = project.root
    edit(project.environment_file("dev"), "kind: ensemble", "kind: ensemble\n    image: serving")
    add_image(root, "serving")
    project.template_file("preview").write_text(TEMPLATE)
    project.delivery_file.write_text("repository: a/b\nenvironments: [{name: dev}]\n")
    (root / "app.py").write_text("print()\n")
    for folder in (
        "tritonstack/files",
        "stacks",
        "model_build",
        "models/minilm/weights",
        "models/unused",
        "docs",
    ):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "file.txt").write_text("text\n")
    for name in BUILD_PINS:
        (root / name).write_text("numpy==2.4.6\n")
    (root / ".gitignore").write_text("*.ignored\n__pycache__\n*.onnx\n")
    with_lock(project)
    repository = Repository(root)
    repository.commit("all of it")
    return repository


def with_lock(project: Project, built: Built | None = None) -> None:
    spec_hash = load_workspace(project, "dev").hashes["minilm"]
    add_to_lock(project.lock_file("dev"), [manifest("minilm", spec_hash=spec_hash)], built=built)


def found(repository: Repository) -> tuple[str | None, list[str]]:
    revision = revision_of(load_workspace(Project(repository.root), "dev"))
    return revision.text, list(revision.files)


def change(file: Path) -> None:
    file.write_text(file.read_text() + "\n# changed\n")


def stage(file: Path) -> None:
    change(file)
    _git(file, "add")


def _git(file: Path, *arguments: str) -> None:
    top = next(parent for parent in file.parents if (parent / ".git").exists())
    subprocess.run(["git", *arguments, str(file)], cwd=top, check=True, capture_output=True)


def hide(file: Path) -> None:
    """Change a file that git assumes unchanged."""
    _git(file, "update-index", "--assume-unchanged")
    change(file)


def forget(file: Path) -> None:
    """Remove a file from git but keep it in the folder."""
    _git(file, "rm", "--cached", "--quiet")


MATTERS = (
    "environments/dev.yaml",
    "environments/dev.lock.yaml",
    "delivery.yaml",
    "cdk.json",
    "requirements.txt",
    "requirements.lock.txt",
    "constraints.txt",
    "app.py",
    "stacks/file.txt",
    "tritonstack/files/file.txt",
    "models/minilm/model.yaml",
    "models/minilm/weights/file.txt",
    "containers/serving/Dockerfile",
)
CODE = ("app.py", "stacks/", "tritonstack/files/")
MATTERS_NOT = (
    "docs/file.txt",
    "models/unused/file.txt",
    "model_build/file.txt",
    "requirements-local.txt",
    "requirements-local.lock.txt",
    "environments/preview.template.yaml",
)


@pytest.mark.parametrize("damage", [change, stage, forget, hide])
def test_every_file_that_matters_is_named(repository, damage):
    head = repository.git("rev-parse", "HEAD")
    for name in MATTERS_NOT:
        change(repository.root / name)
    assert found(repository) == (head, [])
    repository.git("reset", "--quiet", "--hard")
    for name in MATTERS:
        if damage is hide and name.startswith(CODE):
            continue  # below folders of code, git decides
        damage(repository.root / name)
        assert found(repository) == (f"{head}+uncommitted", [name])
        if damage is hide:
            repository.git("update-index", "--no-assume-unchanged", name)
        repository.git("reset", "--quiet", "--hard")
        assert found(repository) == (head, [])


def test_new_renamed_deleted_and_ignored_files(repository):
    root = repository.root
    (root / "stacks" / "new.py").write_text("")
    (root / "stacks" / "cache.ignored").write_text("")
    (root / "models" / "minilm" / "weights" / "model.onnx").write_text("weights that git ignores")
    (root / "models" / "minilm" / "notes.onnx").write_text("ignored, and read by nothing")
    repository.git("mv", "tritonstack/files/file.txt", "tritonstack/files/renamed.txt")
    (root / "app.py").unlink()
    assert found(repository)[1] == [
        "app.py",
        "models/minilm/weights/model.onnx",
        "stacks/new.py",
        "tritonstack/files/file.txt",
        "tritonstack/files/renamed.txt",
    ]


def test_a_source_outside_the_repository_counts(repository, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "weights").write_text("elsewhere")
    folder = repository.root / "models" / "minilm"
    edit(folder / "model.yaml", "file://weights", f"file://{os.path.relpath(outside, folder)}")
    trust = "trust: {external_source: weights that a test shares}\nrecipe:"
    edit(folder / "model.yaml", "recipe:", trust)
    repository.commit("a source elsewhere")
    (name,) = found(repository)[1]
    assert name.endswith("/weights")


def test_submodules(repository, tmp_path_factory):
    other = Repository(tmp_path_factory.mktemp("other"))
    (other.root / "file.txt").write_text("weights")
    other.commit("weights")
    weights = repository.root / "models" / "minilm" / "weights"
    shutil.rmtree(weights)
    repository.commit("no weights")
    allowed = ("-c", "protocol.file.allow=always")
    repository.git(*allowed, "submodule", "add", "--quiet", str(other.root), "models/minilm/weights")
    repository.commit("weights as a submodule")
    assert found(repository)[1] == []
    change(weights / "file.txt")
    assert found(repository)[1] == ["models/minilm/weights"]


def test_a_project_below_the_top_of_its_repository(repository):
    below = repository.root / "below"
    below.mkdir()
    for name in repository.git("ls-files").splitlines():
        target = below / name
        target.parent.mkdir(parents=True, exist_ok=True)
        repository.git("mv", name, f"below/{name}")
    head = repository.commit("all of it one floor down")
    moved = Repository(repository.root)
    moved.root = below
    assert found(moved) == (head, [])
    change(below / "environments" / "dev.yaml")
    (repository.root / "outside.txt").write_text("beside the project")
    assert found(moved)[1] == ["environments/dev.yaml"]


def test_a_folder_without_git_or_without_a_commit_has_no_revision(project):
    assert revision_of(load_workspace(project, "dev")).text is None
    Repository(project.root)
    revision = revision_of(load_workspace(project, "dev"))
    assert (revision.text, "all files" in str(revision.note)) == (None, True)
    assert not is_committed(new_event("verified", load_workspace(project, "dev"), endpoints=[]).commit)


def test_a_build_depends_on_code_and_models_but_not_on_locks(repository):
    project, root = Project(repository.root), repository.root
    change(project.lock_file("dev"))
    assert change_revision_of(load_workspace(project, "dev")).files == ()
    change(project.environment_file("dev"))
    change(root / "stacks" / "file.txt")
    assert built_now(load_workspace(project, "dev")).uncommitted is None
    change(root / "model_build" / "file.txt")
    change(project.model_file("minilm"))
    built = built_now(load_workspace(project, "dev"))
    assert built.commit == f"{repository.git('rev-parse', 'HEAD')}+uncommitted"
    assert built.uncommitted == ("model_build/file.txt", "models/minilm/model.yaml")
    dirty = LATER.model_copy(update={"commit": built.commit})
    hashes = load_workspace(project, "dev").hashes
    assert not attest_builds(project.lock_file("dev"), dirty, hashes=hashes)
    repository.git("reset", "--quiet", "--hard")
    for name in (*BUILD_PINS, "containers/builder/Dockerfile"):
        change(root / name)
        assert build_revision_of(load_workspace(project, "dev")).files == (name,)
        repository.git("reset", "--quiet", "--hard")
    assert not any(map(is_hashed, BUILD_PINS))


def test_events_and_locks_name_the_files(repository):
    project = Project(repository.root)
    head = repository.git("rev-parse", "HEAD")
    change(project.model_file("minilm"))
    event = new_event("deployed", load_workspace(project, "dev"), endpoints=["search"])
    before = revision_of(load_workspace(project, "dev"))
    change(project.environment_file("dev"))
    with pytest.raises(CheckoutError, match=r"synthesis: environments/dev\.yaml"):
        require_unchanged(load_workspace(project, "dev"), before)
    written = json.loads(event.to_json())
    assert written["commit"] == f"{head}+uncommitted"
    assert written["uncommitted"] == ["models/minilm/model.yaml"]
    project.lock_file("dev").unlink()
    with_lock(project, built_now(load_workspace(project, "dev")))
    built = load_lock(project.lock_file("dev")).record.models["minilm"]["cpu"].built
    assert (built.commit, built.uncommitted) == (f"{head}+uncommitted", ("models/minilm/model.yaml",))
    assert short_commit("abc+") == "abc+uncommitted"  # as earlier versions wrote it


LATER = Built(by="ben", at="2026-11-23T00:00:00Z", commit="c" * 40)


def attested_lock(project: Project, built: Built, *, rebuilt: bool = False, changed: bool = False) -> Lock:
    """The lock after a build from a commit, of an artifact that was built in another state."""
    file = project.lock_file("dev")
    with_lock(project, built)
    hashes = dict(load_workspace(project, "dev").hashes)
    if changed:
        hashes["minilm"] = "0" * 64
    digest = load_lock(file).record.models["minilm"]["cpu"].digest
    attest_builds(file, LATER, hashes=hashes, rebuilt=[digest] if rebuilt else ())
    return load_lock(file).record


@pytest.mark.parametrize(
    ("files", "kwargs", "committed"),
    [
        (("models/minilm/model.yaml",), {}, True),
        (("models/minilm/model.yaml",), {"changed": True}, False),
        (("model_build/file.txt", "models/minilm/model.yaml"), {}, False),
        (("model_build/file.txt",), {"rebuilt": True}, True),
        (("models/minilm/model.yaml", "(3 more)"), {}, False),
        (None, {}, False),
        (None, {"rebuilt": True}, True),
    ],
)
def test_build_gets_its_commit_once_verified(project, files, kwargs, committed):
    dirty = Built(by="ann", at="2026-11-22T00:00:00Z", commit="a" * 40 + "+uncommitted", uncommitted=files)
    entry = attested_lock(project, dirty, **kwargs).models["minilm"]["cpu"]
    assert is_committed(entry.built.commit) is committed
    assert entry.built.commit == ("c" * 40 if committed else dirty.commit)


def test_targets_of_symbolic_links_count(repository, tmp_path_factory):
    file, outside = repository.root / "environments" / "dev.yaml", tmp_path_factory.mktemp("outside")
    shutil.move(file, outside / "dev.yaml")
    file.symlink_to(outside / "dev.yaml")
    repository.commit("a link")
    assert found(repository)[1] == ["environments/dev.yaml"]


def test_an_instance_is_its_template(repository):
    project = Project(repository.root)
    change(project.template_file("preview"))
    change(project.environment_file("dev"))
    assert revision_of(ProjectFiles(project).instance(sample_instance("preview"))).files == (
        "environments/preview.template.yaml",
    )
