"""What a workflow run does after one of its jobs was cancelled by a newer run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.delivery.github.expressions import Payload, Scope, holds
from tests.delivery.github.workflows import WORKFLOWS, Event, Runner, listed, read_workflow

MAIN = "refs/heads/main"
PUSH = Event("push", MAIN, {"before": "0" * 40}, sha="1" * 40)


def runner(folder: Path, ends: dict[str, str], said: dict[str, dict[str, str]]) -> Runner:
    """A runner of a repository whose jobs end with the given results."""
    return Runner(
        remote=folder,
        folder=folder,
        repository="example/tritonstack",
        delivery_stacks={},
        variables={},
        prepare_checkout=lambda work: None,
        ends=ends,
        said=said,
    )


def deployed(folder: Path, asked: list[str], **ends: str) -> str:
    """Return the result of prod's job after these results of the others."""
    jobs = {"road": "success", "dev/deploy": "success", "prod/deploy": "success"}
    told = {"road": {"asked": json.dumps(asked), "road": "{}"}}
    given = jobs | {name if name == "road" else f"{name}/deploy": end for name, end in ends.items()}
    said = told if given["road"] == "success" else {}
    return runner(folder, given, said).run("deploy.yml", PUSH)["prod"]


@pytest.mark.parametrize(
    ("asked", "ends", "prod"),
    [
        (["dev", "prod"], {}, "success"),
        (["prod"], {}, "success"),  # nothing was asked of dev: it was left out
        (["dev"], {}, "skipped"),
        (["dev", "prod"], {"dev": "cancelled"}, "skipped"),  # a newer run took its place
        (["dev", "prod"], {"dev": "failure"}, "skipped"),
        (["dev", "prod"], {"road": "cancelled"}, "skipped"),  # dev was left out as well
        (["dev", "prod"], {"road": "failure"}, "skipped"),
    ],
)
def test_prod_gets_no_commit_that_dev_was_to_see_and_did_not(tmp_path, asked, ends, prod):
    assert deployed(tmp_path, asked, **ends) == prod


def test_a_cancelled_run_stops(tmp_path):
    ended = runner(tmp_path, {"road": "success"}, {"road": {"asked": '["dev", "prod"]', "road": "{}"}})
    ended.cancelled = True
    assert set(ended.run("deploy.yml", PUSH).values()) == {"skipped"}


GOING_ON = [
    pytest.param(job, before, id=f"{file.stem}/{name}-{before}")
    for file in sorted(WORKFLOWS.glob("*.yml"))
    for name, job in read_workflow(file)["jobs"].items()
    for before in listed(job.get("needs", []))
]


@pytest.mark.parametrize(("job", "before"), GOING_ON)
def test_no_job_goes_on_after_one_that_was_cancelled(job: dict[str, Any], before: str):
    """Except the one that reports the status of a dispatched run; this is a push."""
    outputs = {"asked": '["dev", "prod"]', "road": "{}", "previews": "{}", "environments": "[]"}
    scope = Scope(
        {
            "github": {"event": Payload(), "event_name": "push"},
            "needs": {
                one: {"result": "cancelled" if one == before else "success", "outputs": outputs}
                for one in listed(job["needs"])
            },
        },
        succeeded=False,
        skipped=True,
    )
    assert not holds(job.get("if"), scope)
