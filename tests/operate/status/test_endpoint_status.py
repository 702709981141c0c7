"""The status of an environment: what is to be deployed, what runs, and its problems."""

from typing import Any

import pytest

from tests.git import Repository
from tritonstack.base.files import short_digest
from tritonstack.files.records.events import Event
from tritonstack.operate.shared.checkout import Checkout
from tritonstack.operate.status.status import ServedDigest, undeployed

A, B, COMMIT = "a" * 64, "b" * 64, "c" * 40


def event(kind: Any = "deployed", **facts: Any) -> Event:
    usual = {"environment": "dev", "at": "2026-11-22T08:30:00Z", "by": "Ada", "commit": COMMIT}
    return Event(kind=kind, **{**usual, **facts})


@pytest.mark.parametrize(
    ("deployed", "changed", "models", "words"),
    [
        (event(), [], [ServedDigest("m", A, A)], []),
        (event(), ["environments/dev.yaml"], [], ["environments/dev.yaml differs from commit cccccccc"]),
        (event(), ["a", "b", "c"], [], ["a and 2 more"]),
        (event(), None, [], ["commit cccccccc, which is not"]),
        (event(commit=f"{COMMIT}+"), [], [], ["uncommitted files"]),
        (event(commit=f"{COMMIT}+", uncommitted=("app.py", "new.py")), [], [], ["files: app.py, new.py"]),
        (
            event(commit=f"{COMMIT}+uncommitted", uncommitted=("app.py",)),
            ["app.py", "environments/dev.yaml"],
            [],
            ["files: app.py", "since the deploy: environments/dev.yaml"],
        ),
        (event(commit=None), None, [], ["uncommitted files"]),
        (None, None, [], ["no record"]),
        (
            event(),
            [],
            [ServedDigest("m", A, B), ServedDigest("n", None, B)],
            [f"m is {short_digest(A)}, lock expects {short_digest(B)}", "n is missing"],
        ),
    ],
)
def test_the_deployed_revision_is_compared_with_the_checkout(deployed, changed, models, words):
    reasons = undeployed(deployed, changed, models)
    assert [word in reason for word, reason in zip(words, reasons, strict=True)] == [True] * len(words)


def test_files_that_differ_from_a_commit_are_listed(tmp_path):
    repository = Repository(tmp_path)
    for name in ("one", "two", "docs"):
        (tmp_path / name).write_text("first")
    first = repository.commit("First")
    (tmp_path / "two").write_text("second")
    (tmp_path / "docs").write_text("second")
    repository.commit("Second")
    (tmp_path / "one").write_text("third")
    checkout = Checkout(tmp_path)
    assert checkout.changed_since(first, ["one", "two", "three"]) == ["one", "two"]
    assert checkout.changed_since("0" * 40, ["one"]) is None
