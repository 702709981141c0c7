"""Every command on an environment whose stacks are in all states of CloudFormation, with a stand-in CDK."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest
from moto.cloudformation.models import Stack, cloudformation_backends

from tests.cli.test_messages import outcome
from tests.files.records.test_locks import BUILT
from tests.git import Repository
from tests.operate.audit.test_audit import PLAYED
from tests.operate.shared.test_operations import stand_in_cdk
from tests.operate.two_accounts import add_prod, make_manifest
from tests.projects import edit
from tritonstack.base.naming import artifact_prefix
from tritonstack.base.paths import Project
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.lock_writing import add_to_lock
from tritonstack.files.records.manifests import DIGEST_NOTE
from tritonstack.operate.audit import audit as reports
from tritonstack.operate.audit.audit import LISTINGS
from tritonstack.operate.destroy import deletion
from tritonstack.operate.destroy import environment as destroy
from tritonstack.operate.shared.aws import Clock
from tritonstack.operate.shared.stacks import StackState
from tritonstack.operate.synth.cdk import CdkCli

STATUSES = [
    status
    for status in botocore.session.get_session()
    .get_service_model("cloudformation")
    .shape_for("StackStatus")
    .enum
    if status != "DELETE_COMPLETE"  # described by id only
]
IN_REVIEW = "REVIEW_IN_PROGRESS"
UNCREATED = {status for status in STATUSES if status.startswith(("ROLLBACK_", "DELETE_"))} | {
    "CREATE_FAILED",
    IN_REVIEW,
}
USABLE = {
    f"{operation}_COMPLETE"
    for operation in ("CREATE", "UPDATE", "IMPORT", "UPDATE_ROLLBACK", "IMPORT_ROLLBACK")
}
TEMPLATE = {"Description": "tritonstack: for a test", "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
EXPIRED = {"project": "tritonstack", "environment": "dev", "owner": "ann", "expires": "2000-01-01T00:00:00Z"}


class States:
    """An environment with an endpoint per state of its stack, and the commands on it."""

    def __init__(self, project: Project, account: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.project, self.capsys = project, capsys
        self.client = boto3.client("cloudformation", region_name="eu-west-1")
        self.s3 = boto3.client("s3", region_name="us-east-1")
        self.names = {f"e{number}": status for number, status in enumerate(STATUSES)}
        self.backend = cloudformation_backends[account]["eu-west-1"]
        file = project.environment_file("dev")
        edit(file, "1" * 12, account)
        edit(file, "region:", "removal: destroy\nregion:")
        head, _, endpoint = file.read_text().partition("  search:\n")
        file.write_text(head + "".join(f"  {name}:\n{endpoint}" for name in self.names))
        add_prod(project, account=account)
        self.spec = load_workspace(project, "dev").spec
        self.prod = load_workspace(project, "prod").spec.base
        self.stacks = {f"{self.spec.base}-endpoint-{name}": status for name, status in self.names.items()}
        self.deploys = 0
        self.repository = Repository(project.root)
        self.s3.create_bucket(Bucket=self.spec.artifact_bucket)
        self.build(b"1")
        self.build(b"2")
        for stack, status in self.stacks.items():
            self.create(stack, status)

    def build(self, content: bytes) -> None:
        """Build the model: write the artifact and the lock, and commit."""
        spec_hash = load_workspace(self.project, "dev").hashes["minilm"]
        artifact = make_manifest("minilm", content, spec_hash=spec_hash)
        for name, body in (("model.tar.gz", content), ("manifest.json", artifact.to_json())):
            key = f"{artifact_prefix('minilm', artifact.digest)}/{name}"
            note = {DIGEST_NOTE: artifact.digest}
            self.s3.put_object(Bucket=self.spec.artifact_bucket, Key=key, Body=body, Metadata=note)
        add_to_lock(self.project.lock_file("dev"), [artifact], built=BUILT)
        self.repository.commit(artifact.digest)

    def create(self, stack: str, status: str) -> None:
        """Create a stack in a state, with what CloudFormation has of one in review."""
        call: dict[str, Any] = {"StackName": stack, "TemplateBody": json.dumps(TEMPLATE)}
        tags = [{"Key": key, "Value": value} for key, value in EXPIRED.items()]
        if status != IN_REVIEW:
            self.client.create_stack(**call, Tags=tags)
            self.stack(stack).status = status
            return
        self.client.create_change_set(
            **call, ChangeSetName="cdk-deploy-change-set", ChangeSetType="CREATE", Tags=tags
        )
        created = self.stack(stack)
        created.template, created.tags, created.description = "", {}, None
        (planned,) = (
            change_set for change_set in self.backend.change_sets.values() if change_set.stack is created
        )
        planned.tags = tags  # moto does not return them as it has them

    def stack(self, name: str) -> Stack:
        (stack,) = (stack for stack in self.backend.stacks.values() if stack.name == name)
        return stack

    def cdk(self, command: str, *arguments: str, **__: Any) -> None:
        """Do what the CDK does: synthesize, or bring every stack up to date."""
        if command == "synth":
            write_assembly(Path(arguments[-1]), [*self.stacks, f"{self.prod}-foundation"])
        if command == "deploy":
            self.deploys += 1
            for stack in self.stacks if "--all" in arguments else [arguments[0]]:
                self.client.delete_stack(StackName=stack)
                self.create(stack, "UPDATE_COMPLETE")
            if arguments[0] == f"{self.prod}-foundation":
                self.s3.create_bucket(Bucket=load_workspace(self.project, "prod").spec.artifact_bucket)

    def settle(self, _: float) -> None:
        """Let a second pass: operations in progress end."""
        for stack in list(self.backend.stacks.values()):
            if stack.status == "DELETE_IN_PROGRESS":
                self.backend.delete_stack(stack.name)
            elif stack.status != IN_REVIEW:
                stack.status = stack.status.replace("_CLEANUP", "").replace("IN_PROGRESS", "COMPLETE")

    def run(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        status, out, err = outcome(self.capsys, self.project, "--json", *arguments)
        assert status == code, (out, err)
        assert "TS999" not in err
        result: dict[str, Any] = json.loads(out) if out else {}
        return result

    def left(self) -> list[str]:
        return [stack.name for stack in self.backend.stacks.values()]


def write_assembly(folder: Path, stacks: Iterable[str]) -> None:
    stack = {"type": "aws:cloudformation:stack", "properties": {"templateFile": "x.json"}}
    (folder / "manifest.json").write_text(json.dumps({"artifacts": dict.fromkeys(stacks, stack)}))
    (folder / "x.json").write_text(json.dumps({**TEMPLATE, "Description": "tritonstack: other"}))


@pytest.fixture
def states(project, account, capsys, monkeypatch):
    states = States(project, account, capsys)
    stand_in_cdk(project.root, "exit 1")
    monkeypatch.setattr(CdkCli, "run", states.cdk)
    monkeypatch.setattr(time, "sleep", states.settle)
    for module in (destroy, deletion):
        monkeypatch.setattr(module, "Clock", lambda: Clock(sleep=states.settle))
    listings = [listing for listing in LISTINGS if listing.types[0] not in PLAYED]  # moto lacks the others
    monkeypatch.setattr(reports, "LISTINGS", listings)
    boto3.client("ssm", region_name="eu-west-1").put_parameter(
        Name=states.spec.bootstrap.version_parameter, Value="30", Type="String"
    )
    return states


def test_the_model_of_a_stack_knows_every_state():
    stacks = [StackState("t-dev-foundation", status) for status in STATUSES]
    assert [stack.status for stack in stacks if stack.in_review] == [IN_REVIEW]
    busy = {stack.status for stack in stacks if stack.in_progress}
    assert busy == {status for status in STATUSES if status.endswith("IN_PROGRESS")} - {IN_REVIEW}
    assert {stack.status for stack in stacks if stack.failure is None} == USABLE
    assert USABLE | busy <= {stack.status for stack in stacks if stack.was_created} | UNCREATED
    assert {stack.status for stack in stacks if not stack.was_created} == UNCREATED


def test_every_state_is_read(states):
    plans = {plan["stack"]: plan["action"] for plan in states.run("diff", "dev")["stacks"]}
    assert {
        states.stacks.get(stack, IN_REVIEW) for stack, action in plans.items() if action == "create"
    } == UNCREATED
    verdicts = states.run("verify", "dev", "--no-record", code=1)["endpoints"]
    failures = {states.names[verdict["name"]]: verdict["checks"][0]["failures"] for verdict in verdicts}
    assert all(failures.values())
    (environment,) = states.run("status", "dev")["environments"]
    assert {endpoint["status"] for endpoint in environment["endpoints"]} == {"not deployed"}
    audited = states.run("audit", "dev", code=1)["dev"]
    assert {item["id"] for item in audited["resources"]} >= set(states.stacks)
    assert [item["type"] for item in audited["orphans"]] == ["AWS::S3::Bucket"]


def test_every_state_is_destroyed(states):
    assert states.run("destroy", "dev", "--dry-run")["stacks"] == sorted(states.left())
    assert states.run("destroy", "dev", "--yes")["retained"] == []
    assert states.left() == []


def test_every_state_is_deployed_and_rolled_back(states):
    states.run("deploy", "dev")
    assert set(states.left()) == set(states.stacks)
    assert states.run("rollback", "dev", "e0", code=1)["error"]["code"] == "TS421"  # no answers are recorded
    assert states.deploys == 2


def test_promote_deploys_a_foundation_in_review(states):
    states.create(f"{states.prod}-foundation", IN_REVIEW)
    states.run("promote", "dev", "prod")
    assert states.deploys == 1


@pytest.mark.parametrize("alone", [True, False])
def test_reap_destroys_every_state(states, alone):
    """A stack in review has no tags; those of its change set count."""
    if alone:
        for stack, status in states.stacks.items():
            if status != IN_REVIEW:
                states.client.delete_stack(StackName=stack)
    assert states.run("reap")["reaped"] == ["tritonstack-dev"]
    assert states.left() == []
