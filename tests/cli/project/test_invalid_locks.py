"""Commands reject a lock that was edited by hand."""

from __future__ import annotations

import pytest

from stacks.deployment import plan_deployment
from tests.cli.test_messages import outcome
from tests.manifests import manifest
from tests.projects import edit
from tests.records.test_locks import BUILT
from tritonstack.base.paths import Project
from tritonstack.project.loading import load_workspace
from tritonstack.records.lock_writing import add_to_lock


@pytest.fixture
def edited(project: Project) -> Project:
    """A project without an AWS account: any AWS call would fail."""
    made = manifest("minilm", spec_hash=load_workspace(project, "dev").hashes["minilm"])
    add_to_lock(project.lock_file("dev"), [made], built=BUILT)
    edit(project.lock_file("dev"), "archive_bytes: 1", "archive_bytes: 2")
    return project


@pytest.mark.parametrize("command", ["deploy", "diff", "verify", "validate"])
def test_invalid_lock_is_rejected_before_any_call(
    edited: Project, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    code, _, err = outcome(capsys, edited, command, "dev")
    assert code != 0
    assert "environments/dev.lock.yaml:11: models.minilm.cpu.seal: invalid seal" in err
    assert "`git checkout -- environments/dev.lock.yaml` discards uncommitted changes" in err


def test_synth_rejects_it(edited: Project) -> None:
    violations = plan_deployment(load_workspace(edited, "dev"), "search")
    assert isinstance(violations, list)
    assert [violation.field for violation in violations] == ["models.minilm.cpu.seal"]


def test_build_accepts_an_invalid_entry(edited: Project, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys, edited, "build", "dev", "--explain")
    assert code == 0
    assert "minilm for cpu" in out
