"""Delivery through GitHub, from a model change to production, with the steps of the workflows.

Two local clouds simulate the accounts of dev and prod, and a bare repository simulates GitHub's. A job
assumes its role only if the deployed stack's trust policy allows it, and every AWS call is checked against
that role.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.delivery.github.test_workflows import DELIVERY_COMMANDS
from tests.delivery.github.workflows import ROOT, Event, Runner, recorded_calls
from tests.delivery.permissions.iam import could, roles
from tests.delivery.permissions.iam_actions import FREE, action_of
from tests.e2e.conftest import REPOSITORY, Site, furnished_site
from tritonstack.base.paths import Project
from tritonstack.operations.aws import Cloud
from tritonstack.operations.events import read_events
from tritonstack.operations.stacks import describe_stack, list_stacks
from tritonstack.project.loading import load_workspace
from tritonstack.records.locks import load_lock

pytestmark = pytest.mark.soak

MAIN = "refs/heads/main"
SLUG = "example/tritonstack"
ENVIRONMENTS = ("dev", "prod")


@dataclass
class GithubDelivery:
    """A site of two accounts in git, and the runner of its workflows."""

    site: Site
    runner: Runner
    remote: Path

    def head(self) -> str:
        return self._git("rev-parse", MAIN).strip()

    def push(self, message: str) -> Event:
        """Commit and push the content of the site's folder."""
        before = self.head() if self._has_main() else "0" * 40
        self.site.git("add", "--all")
        self.site.git("commit", "--quiet", "--message", message)
        self.site.git("push", "--quiet", "origin", "HEAD:main")
        return Event("push", MAIN, {"before": before})

    def merge(self, branch: str) -> Event:
        """Merge a pull request."""
        before = self.head()
        self.site.git("fetch", "--quiet", "origin", branch)
        self.site.git("merge", "--quiet", "--ff-only", "FETCH_HEAD")
        self.site.git("push", "--quiet", "origin", "HEAD:main")
        return Event("push", MAIN, {"before": before})

    def run(self, workflow: str, event: Event) -> dict[str, str]:
        results = self.runner.run(workflow, event)
        if workflow == "deploy.yml" and set(results.values()) <= {"success", "skipped"}:
            file = self.runner.folder / "github.json"
            held = json.loads(file.read_text())
            held["deployed"] = [*held.get("deployed", []), self.head()]
            file.write_text(json.dumps(held))
        return results

    def proposals(self) -> list[dict[str, Any]]:
        """Return the pull requests that workflows have opened."""
        held: dict[str, Any] = json.loads((self.runner.folder / "github.json").read_text())
        pulls: list[dict[str, Any]] = held["pulls"]
        return pulls

    def told(self) -> str:
        """Return the output of the last steps, for debugging."""
        return "\n".join(
            f"{ran.job}: {ran.command}: {ran.exit_code}\n{ran.output}" for ran in self.runner.ran[-6:]
        )

    def cloud(self, environment: str) -> Cloud:
        return self.site.cloud_of(environment)

    def _has_main(self) -> bool:
        return bool(self._git("for-each-ref", MAIN))

    def _git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.remote), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def environment_of(name: str, account: str, **more: Any) -> str:
    """Return an environment in the local cloud with the fastest rollout."""
    data = yaml.safe_load(REPOSITORY.environment_file("local").read_text())
    (endpoint,) = data["endpoints"].values()
    endpoint["rollout"] = {"strategy": "all-at-once", "bake_s": 0}
    data |= {"name": name, "account": account, "removal": "destroy", "tags": {"team": "search"}} | more
    return yaml.safe_dump(data, sort_keys=False)


DELIVERY = f"""\
repository: {SLUG}
environments: [{{name: dev}}, {{name: prod, approval: true}}]
previews: {{template: preview, environment: dev, ttl: 4h}}
"""


@pytest.fixture(scope="module")
def road(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GithubDelivery]:
    """Both clouds running and bootstrapped, with the delivery stacks deployed."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    root = tmp_path_factory.mktemp("road")
    for name in ("models", "containers"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    site = furnished_site(root, shared=("server", "artifacts"))
    write_files(site.project)
    for number in range(2):
        site.tritonstack("up", "--detach", "--account", f"{number:012}")
    with ThreadPoolExecutor() as pool:
        made = pool.map(lambda name: deploy_delivery_stacks(site, name), ENVIRONMENTS)
        delivery_stacks = dict(zip(ENVIRONMENTS, made, strict=True))
    remote = tmp_path_factory.mktemp("remote") / "tritonstack.git"
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(remote)], check=True)
    (root / ".gitignore").write_text("node_modules\n.tritonstack\ncdk.out\n__pycache__\n*.md\n")
    site.git("init", "--quiet", "--initial-branch=main")
    site.git("remote", "add", "origin", str(remote))
    runner = Runner(
        remote=remote,
        folder=tmp_path_factory.mktemp("jobs"),
        repository=SLUG,
        delivery_stacks=delivery_stacks,
        variables={"TRITONSTACK_HOME": str(site.project.state_dir)},
        prepare_checkout=lambda work: None,
    )
    yield GithubDelivery(site, runner, remote)
    for number in range(2):
        site.tritonstack("down", "--account", f"{number:012}")


def write_files(project: Project) -> None:
    project.environments_dir.mkdir()
    project.environment_file("dev").write_text(environment_of("dev", "000000000000"))
    gates = {"source": "dev", "verified": True, "min_cosine": 0.999}
    project.environment_file("prod").write_text(environment_of("prod", "000000000001", promotion=gates))
    head = {"locks": "dev", "purpose": "preview of a pull request"}
    edge = "tritonstack-delivery-dev-preview-boundary"
    own = {"permissions_boundary": edge, "bootstrap_qualifier": "preview"}
    preview = environment_of("${name}", "000000000000", template=head, **own)
    project.template_file("preview").write_text(preview)
    project.delivery_file.write_text(DELIVERY)


def deploy_delivery_stacks(site: Site, environment: str) -> dict[str, Any]:
    """Do the one-time setup of each account: `cdk bootstrap`, delivery stacks, and buckets."""
    variables = site.cloud_of(environment).process_environment()
    spec = site.spec_of(environment)
    out = site.project.state_dir / f"carriers-{environment}"
    cdk = Site(site.project, variables)
    never = ("--require-approval", "never", "--output", str(out))
    delivery_stacks = ("-c", f"delivery={environment}", *never[2:])
    cdk.run("cdk", "bootstrap", f"aws://{spec.account}/{spec.region}", *delivery_stacks)
    if environment == "dev":
        nothing = ("--cloudformation-execution-policies", "arn:aws:iam::aws:policy/AWSDenyAll")
        previews = ("--qualifier", "preview", "--toolkit-stack-name", "CDKToolkit-preview", *nothing)
        cdk.run("cdk", "bootstrap", f"aws://{spec.account}/{spec.region}", *previews, *delivery_stacks)
    cdk.run("cdk", "deploy", *delivery_stacks, *never[:2])
    cdk.run("cdk", "deploy", f"{spec.base}-foundation", "-c", f"env={environment}", *never)
    template: dict[str, Any] = json.loads((out / f"{spec.delivery_base}.template.json").read_text())
    return template


def test_the_roles_exist_in_both_accounts(road: GithubDelivery) -> None:
    for environment in ENVIRONMENTS:
        iam = road.cloud(environment).client("iam")
        there = {
            role["RoleName"] for page in iam.get_paginator("list_roles").paginate() for role in page["Roles"]
        }
        assert set(roles(road.runner.delivery_stacks[environment])) <= there
        role = iam.get_role(RoleName=f"tritonstack-delivery-{environment}-deploy")["Role"]
        assert role["PermissionsBoundary"]["PermissionsBoundaryArn"].endswith(
            f"tritonstack-delivery-{environment}-boundary"
        )
    assert "tritonstack-delivery-dev-promotion-reader" in roles(road.runner.delivery_stacks["dev"])


def test_a_change_of_a_model_is_built_and_its_lock_proposed(road: GithubDelivery) -> None:
    event = road.push("A model")
    assert road.run("build.yml", event) == {"road": "success", "build": "success"}, road.told()
    (pull,) = road.proposals()
    assert (pull["base"], pull["head"]) == ("main", "build/dev")
    assert road.runner.taken == [("build", "tritonstack-delivery-dev-deploy")]


def test_merged_it_is_deployed_to_dev_and_verified_there_alone(road: GithubDelivery) -> None:
    event = road.merge("build/dev")
    results = road.run("deploy.yml", event)
    assert results == {"road": "success", "dev": "success", "prod": "skipped"}, road.told()
    kinds = [found.kind for found in events(road, "dev")]
    assert kinds[-2:] == ["deployed", "verified"]
    assert events(road, "prod") == []
    (foundation,) = list_stacks(road.cloud("prod"), prefix="tritonstack-prod-")
    assert foundation.name == "tritonstack-prod-foundation"


def test_promotion_is_proposed_with_the_output_of_the_dry_run(road: GithubDelivery) -> None:
    event = Event("workflow_dispatch", MAIN, {}, {"source": "dev", "target": "prod"})
    assert road.run("promote.yml", event) == {"road": "success", "promote": "success"}, road.told()
    pull = road.proposals()[-1]
    assert (pull["base"], pull["head"]) == ("main", "promote/prod")
    assert "would promote minilm-embedding" in pull["body"]
    assert recorded_calls(road.runner.folder)[-1][-1] == "promote/prod"


def test_a_proposal_gets_its_checks_by_the_name_that_has_to_be_there(road: GithubDelivery) -> None:
    event = Event("workflow_dispatch", "refs/heads/promote/prod", {})
    results = road.run("pull-request.yml", event)
    assert results["checks"] == results["status"] == "success", road.told()
    (status,) = json.loads((road.runner.folder / "github.json").read_text())["statuses"]
    assert (status["sha"], status["context"]) == (road.runner.commit_of(event.ref), "checks")


def test_merged_it_is_deployed_to_prod_and_verified(road: GithubDelivery) -> None:
    event = road.merge("promote/prod")
    results = road.run("deploy.yml", event)
    assert results == {"road": "success", "dev": "success", "prod": "success"}, road.told()
    kinds = [found.kind for found in events(road, "prod")]
    assert kinds == ["promoted", "deployed", "verified"]
    assert digests(road, "dev") == digests(road, "prod") != set()


def test_a_pull_request_is_compared_and_gets_an_environment_of_its_own(road: GithubDelivery) -> None:
    event = pull_request(road, "opened")
    done = {
        **dict.fromkeys(("checks", "road", "diff"), "success"),
        **dict.fromkeys(("left-out", "status"), "skipped"),
    }
    assert road.run("pull-request.yml", event) == done, road.told()
    assert road.run("preview.yml", event) == {
        "road": "success",
        "deploy": "success",
        "destroy": "skipped",
    }, road.told()
    said = json.loads((road.runner.folder / "github.json").read_text())["comments"]
    marks = [comment["body"].splitlines()[0] for comment in said]
    assert marks == [f"<!-- tritonstack: {about} -->" for about in ("diff-dev", "diff-prod", "preview")]
    assert "is InService" in said[-1]["body"]
    stack = describe_stack(road.cloud("dev"), "tritonstack-pr-7-foundation")
    assert stack is not None
    found = road.cloud("dev").client("cloudformation").describe_stacks(StackName=stack.name)["Stacks"][0]
    assert found["RoleARN"].endswith("role/tritonstack-delivery-dev-preview-execution")
    published = f"cdk-preview-assets-{road.site.spec_of('dev').account}-{road.site.spec_of('dev').region}"
    listed = road.cloud("dev").client("s3").list_objects_v2(Bucket=published)
    assert any(item["Key"].endswith(".json") for item in listed["Contents"])


def test_closed_its_environment_goes(road: GithubDelivery) -> None:
    event = pull_request(road, "closed")
    assert road.run("preview.yml", event) == {
        "road": "success",
        "deploy": "skipped",
        "destroy": "success",
    }, road.told()
    assert list_stacks(road.cloud("dev"), prefix="tritonstack-pr-7-") == []


@pytest.mark.parametrize("whose", [{"fork": "somebody/tritonstack"}, {"actor": "dependabot[bot]"}])
def test_who_gets_no_credentials_gets_checks_and_a_word_about_it(
    road: GithubDelivery, whose: dict[str, str]
) -> None:
    event = pull_request(road, "opened", **whose)
    before = len(road.runner.taken)
    assert road.run("pull-request.yml", event) == {
        "checks": "success",
        "road": "skipped",
        "left-out": "success",
        "diff": "skipped",
        "status": "skipped",
    }, road.told()
    assert "::notice::GitHub gives a fork and Dependabot no credentials" in road.runner.ran[-1].output
    assert set(road.run("preview.yml", event).values()) == {"skipped"}
    assert len(road.runner.taken) == before


def test_every_night_what_is_left_is_looked_for(road: GithubDelivery) -> None:
    event = Event("schedule", MAIN, {"schedule": "41 3 * * *"})
    assert road.run("clean-up.yml", event) == dict.fromkeys(("road", "reap", "audit"), "success"), road.told()
    hourly = Event("schedule", MAIN, {"schedule": "17 * * * *"})
    assert road.run("clean-up.yml", hourly)["audit"] == "skipped"


def test_a_rollback_without_a_target_fails_and_proposes_nothing(road: GithubDelivery) -> None:
    before = len(recorded_calls(road.runner.folder))
    event = Event("workflow_dispatch", MAIN, {}, {"environment": "prod", "endpoint": "minilm"})
    assert road.run("rollback.yml", event) == {"road": "success", "rollback": "failure"}
    assert "no earlier artifacts of endpoint 'minilm' in git" in road.told()
    assert [call for call in recorded_calls(road.runner.folder)[before:] if call[0] == "gh"] == []


def test_a_rollback_is_deployed_at_once_and_its_lock_proposed(road: GithubDelivery) -> None:
    """A second version of the model is delivered to dev, and rolled back."""
    first = digests(road, "dev")
    model = road.site.project.model_file("minilm-embedding")
    model.write_text(model.read_text().replace("max_batch: 32", "max_batch: 16"))
    assert road.run("build.yml", road.push("Smaller batches"))["build"] == "success", road.told()
    assert road.run("deploy.yml", road.merge("build/dev"))["dev"] == "success", road.told()
    assert digests(road, "dev") != first
    event = Event("workflow_dispatch", MAIN, {}, {"environment": "dev", "endpoint": "minilm"})
    assert road.run("rollback.yml", event) == {"road": "success", "rollback": "success"}, road.told()
    assert [found.kind for found in events(road, "dev")][-1] == "verified"
    pull = road.proposals()[-1]
    assert pull["head"] == "rollback/dev/minilm"
    assert "minilm: tritonstack-dev-minilm" in pull["body"]  # what `verify` said
    road.merge("rollback/dev/minilm")
    assert digests(road, "dev") == first


def test_every_command_of_every_workflow_was_run(road: GithubDelivery) -> None:
    assert set(DELIVERY_COMMANDS) <= {ran.command for ran in road.runner.ran}


def test_each_call_to_aws_was_one_that_the_jobs_role_may_make(road: GithubDelivery) -> None:
    assert len(road.runner.called) > 100
    refused = {
        f"{role}: {action_of(service, operation)}"
        for role, service, operation in road.runner.called
        if (service, operation) not in FREE and not allows(road, role, action_of(service, operation))
    }
    assert sorted(refused) == []


def allows(road: GithubDelivery, role: str, action: str) -> bool:
    """Return whether a role may perform an action at all; test_permissions.py checks the resources."""
    return any(
        could(template, role, action)
        for template in road.runner.delivery_stacks.values()
        if role in roles(template)
    )


def digests(road: GithubDelivery, environment: str) -> set[str]:
    """Return the digests in the merged lock of an environment."""
    models = load_lock(road.site.project.lock_file(environment)).record.models
    return {entry.digest for targets in models.values() for entry in targets.values()}


def events(road: GithubDelivery, environment: str) -> list[Any]:
    spec = load_workspace(road.site.project, environment).spec
    return read_events(road.cloud(environment), spec.artifact_bucket)


def pull_request(road: GithubDelivery, action: str, *, fork: str = SLUG, actor: str = "ann") -> Event:
    """Pull request 7, with its merge commit where GitHub keeps it."""
    road._git("update-ref", "refs/pull/7/merge", road.head())
    return Event(
        "pull_request",
        "refs/pull/7/merge",
        {
            "action": action,
            "pull_request": {"number": 7, "head": {"repo": {"full_name": fork}}, "base": {"ref": "main"}},
        },
        actor=actor,
    )
