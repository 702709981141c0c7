"""`tritonstack ci`, with a stand-in for `gh` and a real git."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.delivery.github.workflows import STAND_INS, recorded_calls
from tritonstack.cli.main import run

SAID = "```text\npromote minilm\n```"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of a bare repository with a lock in it."""
    work, remote = tmp_path / "work", tmp_path / "remote.git"
    for command in (
        ["git", "init", "--quiet", "--bare", "--initial-branch=main", str(remote)],
        ["git", "init", "--quiet", "--initial-branch=main", str(work)],
        ["git", "-C", str(work), "remote", "add", "origin", str(remote)],
    ):
        subprocess.run(command, check=True)
    lock = work / "environments" / "prod.lock.yaml"
    lock.parent.mkdir()
    lock.write_text("models: {}\n")
    (work / "said.md").write_text("promote minilm\n")
    (work / "cdk.json").write_text("{}")
    git(work, "add", "environments")
    git(work, "commit", "--quiet", "-m", "A lock")
    git(work, "push", "--quiet", "origin", "main")
    return work


def git(work: Path, *arguments: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(work), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True)
class Ended:
    """One run of `tritonstack ci`."""

    code: int
    output: str
    errors: str


Ci = Callable[..., Ended]


@pytest.fixture
def ci(checkout: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Ci:
    """Run `tritonstack ci` in the checkout, with GitHub's variables."""
    monkeypatch.chdir(checkout)
    for name, value in {
        "PATH": f"{STAND_INS}{os.pathsep}{os.environ['PATH']}",
        "STAND_IN_LOG": str(checkout.parent / "stand-ins.jsonl"),
        "GITHUB_REPOSITORY": "example/tritonstack",
        "GH_TOKEN": "a-token",
        "STAND_IN_RIGHTS": json.dumps({"actions": "write", "pull-requests": "write"}),
        "PULL_REQUEST": "7",
    }.items():
        monkeypatch.setenv(name, value)

    def call(*arguments: str) -> Ended:
        capfd.readouterr()
        code = run(["ci", *arguments])
        return Ended(code, *capfd.readouterr())

    return call


def propose(ci: Ci) -> Ended:
    options = ("--branch", "promote/prod", "--title", "dev -> prod", "--body", "said.md")
    return ci("propose-change", *options)


def held(work: Path) -> dict:
    return json.loads((work.parent / "github.json").read_text())


def test_a_changed_lock_becomes_a_pull_request(checkout, ci):
    (checkout / "environments" / "prod.lock.yaml").write_text("models: {minilm: {}}\n")
    done = propose(ci)
    assert done.code == 0, done.errors
    (pull,) = held(checkout)["pulls"]
    assert pull == {
        "base": "main",
        "head": "promote/prod",
        "title": "dev -> prod",
        "body": SAID,
        "from": "example/tritonstack",
        "open": True,
    }
    commit = git(checkout.parent / "remote.git", "show", "--stat", "--format=%an: %s", "promote/prod")
    assert commit.startswith("github-actions[bot]: dev -> prod")
    assert "environments/prod.lock.yaml" in commit
    assert "said.md" not in commit
    assert recorded_calls(checkout.parent)[-1] == [
        *("gh", "workflow", "run", "pull-request.yml", "--ref", "promote/prod")
    ]


def test_nothing_is_proposed_without_changes(checkout, ci):
    done = propose(ci)
    assert done.code == 0
    assert recorded_calls(checkout.parent) == []


def test_an_unmerged_proposal_is_replaced(checkout, ci):
    lock = checkout / "environments" / "prod.lock.yaml"
    for model in ("minilm", "ranker"):
        lock.write_text(f"models: {{{model}: {{}}}}\n")
        (checkout / "said.md").write_text(f"promote {model}\n")
        assert propose(ci).code == 0
        git(checkout, "switch", "--quiet", "main")
    (pull,) = held(checkout)["pulls"]
    assert (pull["title"], pull["open"]) == ("dev -> prod", True)
    assert "promote ranker" in pull["body"]
    remote = checkout.parent / "remote.git"
    assert git(remote, "show", "promote/prod:environments/prod.lock.yaml") == "models: {ranker: {}}\n"
    assert git(remote, "rev-list", "--count", "main..promote/prod").strip() == "1"


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_an_incomplete_proposal_has_no_checks_and_the_next_run_completes_it(checkout, ci, method):
    lock = checkout / "environments" / "prod.lock.yaml"
    lock.write_text("models: {minilm: {}}\n")
    if method == "PATCH":
        assert propose(ci).code == 0
        git(checkout, "switch", "--quiet", "main")
        lock.write_text("models: {ranker: {}}\n")
        (checkout / "said.md").write_text("promote ranker\n")
    state = checkout.parent / "github.json"
    before = json.loads(state.read_text()) if state.exists() else {}
    state.write_text(json.dumps({**before, "down": [method]}))
    started = len(started_checks(checkout))
    failed = propose(ci)
    assert failed.code != 0
    assert "HTTP 502" in failed.errors
    assert len(started_checks(checkout)) == started  # nobody merges what has none
    text = lock.read_text()
    git(checkout, "switch", "--quiet", "main")
    state.write_text(json.dumps({**json.loads(state.read_text()), "down": []}))
    lock.write_text(text)
    assert propose(ci).code == 0
    (pull,) = held(checkout)["pulls"]
    assert pull["body"] == f"```text\n{(checkout / 'said.md').read_text()}```"
    assert git(checkout.parent / "remote.git", "show", "promote/prod:environments/prod.lock.yaml") == text
    assert len(started_checks(checkout)) == started + 1


@pytest.mark.parametrize("whose", ["somebody/tritonstack", "example/another"])
def test_branch_of_a_fork_with_the_same_name_is_not_the_proposal(checkout, ci, whose):
    """Anyone can open such a pull request: it must neither be changed nor hide the proposal."""
    theirs = {"head": "promote/prod", "title": "Mine", "body": "", "from": whose, "open": True}
    (checkout.parent / "github.json").write_text(json.dumps({"pulls": [theirs]}))
    (checkout / "environments" / "prod.lock.yaml").write_text("models: {minilm: {}}\n")
    assert propose(ci).code == 0
    foreign, own = held(checkout)["pulls"]
    assert foreign == theirs
    assert (own["from"], own["title"]) == ("example/tritonstack", "dev -> prod")


def started_checks(work: Path) -> list[list[str]]:
    return [call for call in recorded_calls(work.parent) if call[:3] == ["gh", "workflow", "run"]]


def comment(ci: Ci, about: str, *more: str) -> None:
    done = ci("comment", "--about", about, "--file", "said.md", *more)
    assert done.code == 0, done.errors


def test_each_subject_has_one_comment_which_is_changed(checkout, ci):
    comment(ci, "diff-dev")
    comment(ci, "plan-prod", "--verbatim")
    (checkout / "said.md").write_text("unchanged\n")
    comment(ci, "diff-dev")
    assert [item["body"] for item in held(checkout)["comments"]] == [
        "<!-- tritonstack: diff-dev -->\nunchanged\n",
        f"<!-- tritonstack: plan-prod -->\n{SAID}",
    ]


@pytest.mark.parametrize(
    ("deployed", "default", "base"),
    [
        (["1a2b", "3c4d"], "5e6f", "3c4d"),  # what 5e6f brought was never approved, or failed
        ([], "5e6f", "5e6f"),
        (["1a2b"], "", ""),  # asked for by a person: everything
    ],
)
def test_last_deployed_commit_is_the_base(checkout, ci, deployed, default, base):
    (checkout.parent / "github.json").write_text(json.dumps({"deployed": deployed}))
    done = ci("previous-deploy", "--workflow", "deploy.yml", "--or", default)
    assert (done.code, done.output) == (0, f"before={base}\n"), done.errors
