"""Delivery through GitHub, from a model change to production, with the steps of the workflows.

Two local clouds simulate the accounts of dev and prod, and a bare repository simulates GitHub's. A job
assumes its role only if the deployed stack's trust policy allows it, and every AWS call is checked against
that role.
"""

import json
import shutil
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
from tests.model_build.checking.test_stream_check import write_counting_model
from tritonstack.base.paths import Project
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.locks import load_lock
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.events import read_events
from tritonstack.operate.shared.stacks import describe_stack, list_stacks

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
            state = json.loads(file.read_text())
            state["deployed"] = [*state.get("deployed", []), self.head()]
            file.write_text(json.dumps(state))
        return results

    def proposals(self) -> list[dict[str, Any]]:
        """Return the pull requests that workflows have opened."""
        state: dict[str, Any] = json.loads((self.runner.folder / "github.json").read_text())
        pulls: list[dict[str, Any]] = state["pulls"]
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
    if "template" not in more:
        # Its responses are streamed, which takes a permission of its own.
        data["endpoints"]["counting"] = endpoint | {"kind": "single", "model": "counting", "scaling": {}}
    data |= {"name": name, "account": account, "removal": "destroy", "tags": {"team": "search"}} | more
    return yaml.safe_dump(data, sort_keys=False)


DELIVERY = f"""\
repository: {SLUG}
environments: [{{name: dev}}, {{name: prod, approval: true}}]
previews: {{template: preview, environment: dev, ttl: 4h}}
"""


@pytest.fixture(scope="module")
def delivered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GithubDelivery]:
    """Both clouds running and bootstrapped, with the delivery stacks deployed."""
    root = tmp_path_factory.mktemp("delivery")
    for name in ("models", "containers"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    site = furnished_site(root, shared=("server", "artifacts"))
    write_counting_model(site.project.model_file("counting").parent)
    write_files(site.project)
    for number in range(2):
        site.tritonstack("up", "--detach", "--account", f"{number:012}")
    with ThreadPoolExecutor() as pool:
        stacks = pool.map(lambda name: deploy_delivery_stacks(site, name), ENVIRONMENTS)
        delivery_stacks = dict(zip(ENVIRONMENTS, stacks, strict=True))
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


def test_a_change_of_a_model_is_built_and_its_lock_proposed(delivered):
    event = delivered.push("A model")
    assert delivered.run("build.yml", event) == {"delivery": "success", "build": "success"}, delivered.told()
    (pull,) = delivered.proposals()
    assert (pull["base"], pull["head"]) == ("main", "build/dev")
    assert delivered.runner.taken == [("build", "tritonstack-delivery-dev-deploy")]


def test_merge_deploys_to_dev_and_verifies_there(delivered):
    event = delivered.merge("build/dev")
    results = delivered.run("deploy.yml", event)
    assert results == {"delivery": "success", "dev": "success", "prod": "skipped"}, delivered.told()
    kinds = [event_record.kind for event_record in events(delivered, "dev")]
    assert kinds[-2:] == ["deployed", "verified"]
    assert events(delivered, "prod") == []
    (foundation,) = list_stacks(delivered.cloud("prod"), prefix="tritonstack-prod-")
    assert foundation.name == "tritonstack-prod-foundation"


def test_promotion_is_proposed_with_the_output_of_the_dry_run(delivered):
    event = Event("workflow_dispatch", MAIN, {}, {"source": "dev", "target": "prod"})
    assert delivered.run("promote.yml", event) == {"delivery": "success", "promote": "success"}, (
        delivered.told()
    )
    pull = delivered.proposals()[-1]
    assert (pull["base"], pull["head"]) == ("main", "promote/prod")
    assert "promote minilm-embedding" in pull["body"]
    assert recorded_calls(delivered.runner.folder)[-1][-1] == "promote/prod"


def test_proposal_gets_the_required_check(delivered):
    event = Event("workflow_dispatch", "refs/heads/promote/prod", {})
    results = delivered.run("pull-request.yml", event)
    assert results["checks"] == results["status"] == "success", delivered.told()
    (status,) = json.loads((delivered.runner.folder / "github.json").read_text())["statuses"]
    assert (status["sha"], status["context"]) == (delivered.runner.commit_of(event.ref), "checks")


def test_merge_of_the_promotion_deploys_to_prod_and_verifies(delivered):
    event = delivered.merge("promote/prod")
    results = delivered.run("deploy.yml", event)
    assert results == {"delivery": "success", "dev": "success", "prod": "success"}, delivered.told()
    kinds = [event_record.kind for event_record in events(delivered, "prod")]
    assert kinds == ["promoted", "promoted", "deployed", "verified"]  # two models
    assert digests(delivered, "dev") == digests(delivered, "prod") != set()


def test_pull_request_is_compared_and_gets_its_own_environment(delivered):
    event = pull_request(delivered, "opened")
    done = {
        **dict.fromkeys(("checks", "delivery", "diff"), "success"),
        **dict.fromkeys(("left-out", "status"), "skipped"),
    }
    assert delivered.run("pull-request.yml", event) == done, delivered.told()
    assert delivered.run("preview.yml", event) == {
        "delivery": "success",
        "deploy": "success",
        "destroy": "skipped",
    }, delivered.told()
    comments = json.loads((delivered.runner.folder / "github.json").read_text())["comments"]
    marks = [comment["body"].splitlines()[0] for comment in comments]
    assert marks == [f"<!-- tritonstack: {about} -->" for about in ("diff-dev", "diff-prod", "preview")]
    for name, comment in zip(("dev", "prod"), comments, strict=False):
        page = (delivered.runner.folder / "artifacts" / f"report-{name}.html").read_text()
        assert f">{name}<" in page
        assert f"[Report on {name}](https://github.com/" in comment["body"]
    assert "is InService" in comments[-1]["body"]
    stack = describe_stack(delivered.cloud("dev"), "tritonstack-pr-7-foundation")
    assert stack is not None
    described = (
        delivered.cloud("dev").client("cloudformation").describe_stacks(StackName=stack.name)["Stacks"][0]
    )
    assert described["RoleARN"].endswith("role/tritonstack-delivery-dev-preview-execution")
    published = (
        f"cdk-preview-assets-{delivered.site.spec_of('dev').account}-{delivered.site.spec_of('dev').region}"
    )
    listed = delivered.cloud("dev").client("s3").list_objects_v2(Bucket=published)
    assert any(item["Key"].endswith(".json") for item in listed["Contents"])


def test_closed_pull_request_destroys_its_environment(delivered):
    event = pull_request(delivered, "closed")
    assert delivered.run("preview.yml", event) == {
        "delivery": "success",
        "deploy": "skipped",
        "destroy": "success",
    }, delivered.told()
    assert list_stacks(delivered.cloud("dev"), prefix="tritonstack-pr-7-") == []


@pytest.mark.parametrize("whose", [{"fork": "somebody/tritonstack"}, {"actor": "dependabot[bot]"}])
def test_forks_without_credentials_get_checks_and_a_note(delivered, whose):
    event = pull_request(delivered, "opened", **whose)
    before = len(delivered.runner.taken)
    assert delivered.run("pull-request.yml", event) == {
        "checks": "success",
        "delivery": "skipped",
        "left-out": "success",
        "diff": "skipped",
        "status": "skipped",
    }, delivered.told()
    assert "::notice::GitHub" in delivered.runner.ran[-1].output
    assert set(delivered.run("preview.yml", event).values()) == {"skipped"}
    assert len(delivered.runner.taken) == before


def test_nightly_run_audits_leftovers(delivered):
    event = Event("schedule", MAIN, {"schedule": "41 3 * * *"})
    assert delivered.run("clean-up.yml", event) == dict.fromkeys(("delivery", "reap", "audit"), "success"), (
        delivered.told()
    )
    hourly = Event("schedule", MAIN, {"schedule": "17 * * * *"})
    assert delivered.run("clean-up.yml", hourly)["audit"] == "skipped"


def test_a_rollback_without_a_target_fails_and_proposes_nothing(delivered):
    before = len(recorded_calls(delivered.runner.folder))
    event = Event("workflow_dispatch", MAIN, {}, {"environment": "prod", "endpoint": "minilm"})
    assert delivered.run("rollback.yml", event) == {"delivery": "success", "rollback": "failure"}
    assert "endpoint 'minilm'" in delivered.told()
    assert [call for call in recorded_calls(delivered.runner.folder)[before:] if call[0] == "gh"] == []


def test_rollback_is_deployed_immediately_and_its_lock_proposed(delivered):
    """A second version of the model is delivered to dev, and rolled back."""
    first = digests(delivered, "dev")
    model = delivered.site.project.model_file("minilm-embedding")
    model.write_text(model.read_text().replace("max_batch: 32", "max_batch: 16"))
    assert delivered.run("build.yml", delivered.push("Smaller batches"))["build"] == "success", (
        delivered.told()
    )
    assert delivered.run("deploy.yml", delivered.merge("build/dev"))["dev"] == "success", delivered.told()
    assert digests(delivered, "dev") != first
    event = Event("workflow_dispatch", MAIN, {}, {"environment": "dev", "endpoint": "minilm"})
    assert delivered.run("rollback.yml", event) == {"delivery": "success", "rollback": "success"}, (
        delivered.told()
    )
    assert [event_record.kind for event_record in events(delivered, "dev")][-1] == "verified"
    pull = delivered.proposals()[-1]
    assert pull["head"] == "rollback/dev/minilm"
    assert "minilm: tritonstack-dev-minilm" in pull["body"]  # what `verify` said
    delivered.merge("rollback/dev/minilm")
    assert digests(delivered, "dev") == first


def test_every_command_of_every_workflow_was_run(delivered):
    assert set(DELIVERY_COMMANDS) <= {ran.command for ran in delivered.runner.ran}


def test_job_role_allows_each_call_to_aws(delivered):
    assert len(delivered.runner.called) > 100
    operations = {operation for _, _, operation in delivered.runner.called}
    assert {"InvokeEndpoint", "InvokeEndpointWithResponseStream"} <= operations
    rejected = {
        f"{role}: {action_of(service, operation)}"
        for role, service, operation in delivered.runner.called
        if (service, operation) not in FREE and not allows(delivered, role, action_of(service, operation))
    }
    assert sorted(rejected) == []


def allows(delivered: GithubDelivery, role: str, action: str) -> bool:
    """Return whether a role may perform an action at all; test_permissions.py checks the resources."""
    return any(
        could(template, role, action)
        for template in delivered.runner.delivery_stacks.values()
        if role in roles(template)
    )


def digests(delivered: GithubDelivery, environment: str) -> set[str]:
    """Return the digests in the merged lock of an environment."""
    models = load_lock(delivered.site.project.lock_file(environment)).record.models
    return {entry.digest for targets in models.values() for entry in targets.values()}


def events(delivered: GithubDelivery, environment: str) -> list[Any]:
    spec = load_workspace(delivered.site.project, environment).spec
    return read_events(delivered.cloud(environment), spec.artifact_bucket)


def pull_request(delivered: GithubDelivery, action: str, *, fork: str = SLUG, actor: str = "ann") -> Event:
    """Pull request 7, with its merge commit where GitHub keeps it."""
    delivered._git("update-ref", "refs/pull/7/merge", delivered.head())
    return Event(
        "pull_request",
        "refs/pull/7/merge",
        {
            "action": action,
            "pull_request": {"number": 7, "head": {"repo": {"full_name": fork}}, "base": {"ref": "main"}},
        },
        actor=actor,
    )
