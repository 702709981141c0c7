"""What protects an environment from destruction, and what lifts the protection."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.git import Repository
from tests.projects import edit, write_project
from tritonstack.base.paths import Project
from tritonstack.files.loading import load_workspace
from tritonstack.operate.shared.checkout import Checkout
from tritonstack.operate.shared.deployed import ProtectedError, needs_its_name, require_unprotected
from tritonstack.operate.shared.stacks import StackState

FREE = StackState("tritonstack-dev-foundation", "CREATE_COMPLETE")
LOCKED = replace(FREE, protected=True)


@pytest.fixture
def committed(project):
    repository = Repository(project.root)
    repository.commit("first")
    return repository


def write(project: Project, *lines: str) -> None:
    """Write the environment's file with these settings."""
    file = project.environment_file("dev")
    kept = [line for line in file.read_text().splitlines() if not line.startswith(("removal:", "protected:"))]
    file.write_text("\n".join([*kept[:4], *lines, *kept[4:]]) + "\n")


def require(root: Path, *stacks: StackState, described: bool = True) -> None:
    project = Project(root)
    spec, file = load_workspace(project, "dev").spec, project.environment_file("dev")
    require_unprotected(
        "dev", spec=spec if described else None, file=file, stacks=stacks, checkout=Checkout(root)
    )


@pytest.mark.parametrize(
    ("lines", "is_committed", "stack", "described", "message", "remedy"),
    [
        # what the file says counts, whatever is deployed
        ((), True, FREE, True, "'dev' is protected", "set `protected: false`"),
        (("removal: retain",), True, FREE, True, "'dev' is protected", "tritonstack deploy dev"),
        (("removal: destroy", "protected: true"), True, FREE, True, "'dev' is protected", "deploy dev"),
        # editing the file does not lift deployed protection, and lifting it must be committed
        (("protected: false",), True, LOCKED, True, LOCKED.name, "`tritonstack deploy dev`"),
        (("protected: false",), False, FREE, True, "is not committed", "commit it"),
        # without a file, the deployed stacks decide
        ((), True, LOCKED, False, LOCKED.name, "restore"),
    ],
)
def test_what_protects_an_environment(committed, lines, is_committed, stack, described, message, remedy):
    write(Project(committed.root), *lines)
    if is_committed:
        committed.commit("settings")
    with pytest.raises(ProtectedError) as caught:
        require(committed.root, stack, described=described)
    assert message in caught.value.message
    assert remedy in str(caught.value.remedy)


def test_what_lifts_the_protection(committed, project, tmp_path_factory):
    write(project, "protected: false")
    committed.commit("lifted")
    require(committed.root, FREE)
    without_git = tmp_path_factory.mktemp("project")
    write_project(without_git)
    write(Project(without_git), "protected: false")
    require(without_git, FREE)


def named(project: Project, *, keeps_data: bool = False, described: bool = True) -> bool:
    spec = load_workspace(project, "dev").spec if described else None
    file = project.environment_file("dev")
    return needs_its_name(spec, file=file, keeps_data=keeps_data, checkout=Checkout(project.root))


def test_environments_that_retain_data_require_their_name(project):
    write(project, "protected: false")
    assert named(project)
    write(project, "removal: destroy")
    assert not named(project)
    assert named(project, keeps_data=True)


def test_an_environment_that_was_ever_protected_needs_its_name(committed, project):
    """It was protected by default; then `destroy`, twice: git remembers."""
    write(project, "removal: destroy")
    committed.commit("destroy")
    edit(project.environment_file("dev"), "25.04", "24.09")
    committed.commit("another release")
    assert named(project)
    project.environment_file("dev").unlink()
    committed.commit("gone")
    assert named(project, described=False)
