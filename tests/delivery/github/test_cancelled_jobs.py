"""What a workflow run does after one of its jobs was cancelled by a newer run."""

import json
from pathlib import Path

import pytest

from tests.delivery.github.expressions import Payload, Scope, holds
from tests.delivery.github.workflows import WORKFLOWS, Event, Runner, listed, read_workflow

MAIN = "refs/heads/main"
PUSH = Event("push", MAIN, {"before": "0" * 40}, sha="1" * 40)


def runner(folder: Path, ends: dict[str, str], outputs: dict[str, dict[str, str]]) -> Runner:
    """A runner of a repository whose jobs end with the given results."""
    return Runner(
        remote=folder,
        folder=folder,
        repository="example/tritonstack",
        delivery_stacks={},
        variables={},
        prepare_checkout=lambda work: None,
        ends=ends,
        said=outputs,
    )


def deployed(folder: Path, affected: list[str], **ends: str) -> str:
    """Return the result of prod's job after these results of the others."""
    jobs = {"delivery": "success", "dev/deploy": "success", "prod/deploy": "success"}
    outputs = {"delivery": {"affected": json.dumps(affected), "stages": "{}"}}
    all_ends = jobs | {name if name == "delivery" else f"{name}/deploy": end for name, end in ends.items()}
    given_outputs = outputs if all_ends["delivery"] == "success" else {}
    return runner(folder, all_ends, given_outputs).run("deploy.yml", PUSH)["prod"]


@pytest.mark.parametrize(
    ("affected", "ends", "prod"),
    [
        (["dev", "prod"], {}, "success"),
        (["prod"], {}, "success"),  # dev is not affected, so it was skipped
        (["dev"], {}, "skipped"),
        (["dev", "prod"], {"dev": "cancelled"}, "skipped"),  # a newer run took its place
        (["dev", "prod"], {"dev": "failure"}, "skipped"),
        (["dev", "prod"], {"delivery": "cancelled"}, "skipped"),  # dev was left out as well
        (["dev", "prod"], {"delivery": "failure"}, "skipped"),
    ],
)
def test_prod_is_skipped_if_dev_did_not_get_the_commit(tmp_path, affected, ends, prod):
    assert deployed(tmp_path, affected, **ends) == prod


def test_a_cancelled_run_stops(tmp_path):
    ended = runner(
        tmp_path, {"delivery": "success"}, {"delivery": {"affected": '["dev", "prod"]', "stages": "{}"}}
    )
    ended.cancelled = True
    assert set(ended.run("deploy.yml", PUSH).values()) == {"skipped"}


GOING_ON = [
    pytest.param(job, before, id=f"{file.stem}/{name}-{before}")
    for file in sorted(WORKFLOWS.glob("*.yml"))
    for name, job in read_workflow(file)["jobs"].items()
    for before in listed(job.get("needs", []))
]


@pytest.mark.parametrize(("job", "before"), GOING_ON)
def test_no_job_runs_after_a_cancelled_one(job, before):
    """Except the one that reports the status of a dispatched run; this is a push."""
    outputs = {"affected": '["dev", "prod"]', "stages": "{}", "previews": "{}", "environments": "[]"}
    scope = Scope(
        {
            "github": {"event": Payload(), "event_name": "push"},
            "needs": {
                needed: {"result": "cancelled" if needed == before else "success", "outputs": outputs}
                for needed in listed(job["needs"])
            },
        },
        succeeded=False,
    )
    assert not holds(job.get("if"), scope)
