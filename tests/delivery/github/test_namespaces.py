"""GitHub's runners refuse user namespaces until a step allows them; one that still does fails early."""

import pytest
import yaml

from tests.delivery.github.workflows import ROOT, WORKFLOWS, read_workflow

ACTIONS = (".github/actions", "tritonstack/files/scaffold/files/github/actions")
CHECK = "./.github/actions/check"
ALLOW = "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
PROBE = "unshare --user --map-root-user --mount true"


@pytest.mark.parametrize("actions", ACTIONS)
def test_the_checks_allow_namespaces_and_prove_it_before_anything_needs_them(actions):
    action = yaml.safe_load((ROOT / actions / "check/action.yml").read_text())
    assert [step["run"] for step in action["runs"]["steps"]][:2] == [ALLOW, PROBE]


TRITON_COMMANDS = ("make test", "make test-soak", "tritonstack build")
TRITON_STEPS = [
    pytest.param(job["steps"], index, id=f"{file.stem}/{name}")
    for file in sorted(WORKFLOWS.glob("*.yml"))
    for name, job in read_workflow(file)["jobs"].items()
    for index, step in enumerate(job.get("steps", []))
    if step.get("run", "").startswith(TRITON_COMMANDS)
]


@pytest.mark.parametrize(("steps", "index"), TRITON_STEPS)
def test_a_job_allows_namespaces_before_it_starts_triton(steps, index):
    assert any(step.get("run") == ALLOW or step.get("uses") == CHECK for step in steps[:index])
