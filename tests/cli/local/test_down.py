"""`tritonstack down` without a running cloud; tests/e2e/local_cloud/test_cloud_process.py stops real ones."""

from __future__ import annotations

import json

from tests.cli.test_messages import outcome


def test_no_cloud_is_not_a_failure(project, capsys):
    code, out, _ = outcome(capsys, project, "down")
    assert (code, "not running" in out) == (0, True)
    code, out, _ = outcome(capsys, project, "down", "--all")
    assert (code, "no local cloud" in out) == (0, True)


def test_down_all_with_forget_removes_all_state(project, capsys):
    for account in ("000000000000", "000000000003"):
        state = project.cloud_dir(account) / "state"
        state.mkdir(parents=True)
        (state / "state.db").write_bytes(b"")
    code, out, _ = outcome(capsys, project, "--json", "down", "--all", "--forget")
    assert code == 0
    assert json.loads(out) == {"stopped": [], "forgotten": ["default", "default-000000000003"]}
    assert not any(project.clouds_dir.rglob("state.db"))


def test_one_account_or_all(project, capsys):
    code, _, err = outcome(capsys, project, "down", "--all", "--account", "000000000001")
    assert (code, "error[TS901]" in err) == (2, True)
