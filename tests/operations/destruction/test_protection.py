"""What protects an environment from destruction, and what lifts the protection."""

import subprocess
from dataclasses import replace

import pytest

from tests.projects import edit
from tritonstack.base.paths import Project
from tritonstack.operations.checkout import Checkout
from tritonstack.operations.destruction.protection import ProtectedError, needs_its_name, require_unprotected
from tritonstack.operations.stacks import StackState
from tritonstack.project.loading import load_workspace

FREE = StackState("tritonstack-dev-foundation", "CREATE_COMPLETE")
LOCKED = replace(FREE, protected=True)


def git(project: Project, *arguments: str) -> None:
    person = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
    subprocess.run(["git", "-C", str(project.root), *person, *arguments], check=True, capture_output=True)


def commit(project: Project) -> None:
    git(project, "add", "-A")
    git(project, "commit", "-m", "x")


def says(project: Project, *lines: str) -> None:
    """Write the file with extra settings."""
    file = project.environment_file("dev")
    kept = [line for line in file.read_text().splitlines() if not line.startswith(("removal:", "protected:"))]
    file.write_text("\n".join([*kept[:4], *lines, *kept[4:]]) + "\n")


@pytest.fixture
def committed(project):
    git(project, "init", "-q")
    commit(project)
    return project


def error_of(project: Project, *stacks: StackState, described: bool = True) -> tuple[str, str]:
    spec = load_workspace(project, "dev").spec if described else None
    with pytest.raises(ProtectedError) as caught:
        require_unprotected(
            "dev",
            spec=spec,
            file=project.environment_file("dev"),
            stacks=stacks,
            checkout=Checkout(project.root),
        )
    return caught.value.message, str(caught.value.remedy)


def permitted(project: Project, *stacks: StackState) -> bool:
    spec, file = load_workspace(project, "dev").spec, project.environment_file("dev")
    require_unprotected("dev", spec=spec, file=file, stacks=stacks, checkout=Checkout(project.root))
    return True


@pytest.mark.parametrize("lines", [(), ("removal: retain",), ("removal: destroy", "protected: true")])
def test_protection_in_the_file_does_not_depend_on_the_deployed_state(committed, lines):
    says(committed, *lines)
    message, remedy = error_of(committed, FREE)
    assert "'dev' is protected" in message
    assert "set `protected: false`" in remedy
    assert "tritonstack deploy dev" in remedy


def test_editing_the_file_does_not_lift_deployed_protection(committed):
    says(committed, "protected: false")
    commit(committed)
    message, remedy = error_of(committed, LOCKED)
    assert "stacks of environment" in message
    assert "tritonstack-dev-foundation" in message
    assert "`tritonstack deploy dev`" in remedy


def test_lifting_protection_must_be_committed(committed):
    says(committed, "protected: false")
    message, remedy = error_of(committed, FREE)
    assert "is not committed" in message
    assert "review the change" in remedy
    commit(committed)
    assert permitted(committed, FREE)


def test_without_a_file_the_deployed_stacks_decide(committed):
    message, remedy = error_of(committed, LOCKED, described=False)
    assert "stacks of environment" in message
    assert "restore" in remedy


def test_without_git_file_and_stacks_decide(project):
    says(project, "protected: false")
    assert permitted(project, FREE)


def named(project: Project, *, keeps_data: bool = False, described: bool = True) -> bool:
    spec = load_workspace(project, "dev").spec if described else None
    file = project.environment_file("dev")
    return needs_its_name(spec, file=file, keeps_data=keeps_data, checkout=Checkout(project.root))


def test_environments_that_retain_data_require_their_name(project):
    says(project, "protected: false")
    assert named(project)
    says(project, "removal: destroy")
    assert not named(project)
    assert named(project, keeps_data=True)


def test_an_environment_that_was_ever_protected_needs_its_name(committed):
    """It was protected by default; then `destroy`, twice: git remembers."""
    says(committed, "removal: destroy")
    commit(committed)
    edit(committed.environment_file("dev"), "25.04", "24.09")
    commit(committed)
    assert named(committed)
    committed.environment_file("dev").unlink()
    commit(committed)
    assert named(committed, described=False)
