"""Commands that are killed at an AWS call: the same command finishes, or `destroy` removes everything.

This is the fast variant, on moto and with a stand-in CDK that makes the CDK's calls of CloudFormation.
tests/e2e/load/test_kills_at_calls.py kills processes, the real CDK's included.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import botocore.client
import pytest
from botocore.exceptions import ClientError
from moto.cloudformation.models import cloudformation_backends

from tests.cli.builds.stand_in_job import keep
from tests.cli.test_messages import outcome
from tests.files.records.test_locks import BUILT
from tests.git import Repository
from tests.kills import COMMANDS, Killer
from tests.operate.audit.test_audit import PLAYED
from tests.operate.shared.test_operations import stand_in_cdk
from tests.operate.two_accounts import add_prod
from tests.projects import edit
from tritonstack.base.paths import Project
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.lock_writing import add_to_lock
from tritonstack.files.records.locks import load_lock
from tritonstack.files.records.manifests import MANIFEST_NAME, parse_manifest
from tritonstack.operate.audit import audit as reports
from tritonstack.operate.audit.audit import LISTINGS
from tritonstack.operate.build import local_build
from tritonstack.operate.destroy.deletion import empty_bucket
from tritonstack.operate.rollback import rollback as rollback_workflow
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.revisions import Revision
from tritonstack.operate.synth.cdk import CdkCli
from tritonstack.operate.verify.verdicts import Verdict

DESCRIPTION = "tritonstack: x"
KILLS = int(os.environ.get("TRITONSTACK_KILLS", "3"))
"""Kills per command."""


class Killed(BaseException):
    """Ends a command at once."""


class Site:
    """A project with dev and prod in one account, whose commands can be killed."""

    def __init__(
        self,
        project: Project,
        account: str,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.project, self.capsys = project, capsys
        keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
        self.cloud = Cloud(account, "eu-west-1", keys)
        self.backend = cloudformation_backends[account]["eu-west-1"]
        self.calls: list[str] = []
        self.kill_at, self.answered = 0, False
        edit(project.environment_file("dev"), "1" * 12, account)
        add_prod(project, account=account)
        for name in ("dev", "prod"):
            edit(project.environment_file(name), "region:", "removal: destroy\nregion:")
        (project.root / ".gitignore").write_text(".tritonstack\nnode_modules\nstarted.txt\n")
        self.repository = Repository(project.root)
        self.real_call = botocore.client.BaseClient._make_api_call  # type: ignore[attr-defined]
        stand_in_cdk(project.root, "exit 1")
        monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", self._call_of())
        monkeypatch.setattr(CdkCli, "run", self._cdk)
        monkeypatch.setattr(Cloud, "_clients", {})  # created once, not by each command
        verdict = Verdict("dev", Revision(None), (), tested=True)
        monkeypatch.setattr(rollback_workflow, "verify_workspace", lambda *_, **__: verdict)
        listings = [
            listing for listing in LISTINGS if listing.types[0] not in PLAYED
        ]  # moto lacks the others
        monkeypatch.setattr(reports, "LISTINGS", listings)
        self.cloud.client("ssm").put_parameter(
            Name=self.spec("dev").bootstrap.version_parameter, Value="30", Type="String"
        )

    def spec(self, environment: str) -> Any:
        return load_workspace(self.project, environment).spec

    def _call_of(self) -> Callable[..., Any]:
        def call(client: Any, name: str, parameters: dict[str, Any]) -> Any:
            self.calls.append(name)
            number = len(self.calls)
            if self.kill_at and number > self.kill_at - (not self.answered):
                raise Killed  # a dead command makes no calls in its other threads either
            answer = self.real_call(client, name, parameters)
            for stack in self.backend.stacks.values():
                if stack.status == "REVIEW_IN_PROGRESS":
                    stack.template = ""  # as CloudFormation answers
                else:
                    stack.description = DESCRIPTION  # moto reads none from change sets
            if number == self.kill_at:
                raise Killed
            return answer

        return call

    def _cdk(self, command: str, *arguments: str, **options: Any) -> None:
        """Do what the CDK does: synthesize, or deploy stacks with change sets."""
        if command == "synth":
            self._synthesize(Path(arguments[arguments.index("--output") + 1]))
        elif command == "deploy":
            folder = options["assembly"]
            stacks = json.loads((folder / "manifest.json").read_text())["artifacts"]
            for name in stacks if "--all" in arguments else [n for n in stacks if n in arguments]:
                self._deploy(name, (folder / stacks[name]["properties"]["templateFile"]).read_text())

    def _synthesize(self, folder: Path) -> None:
        artifacts = {}
        for environment in ("dev", "prod"):
            spec = self.spec(environment)
            models = load_lock(self.project.lock_file(environment)).record.models
            bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": spec.artifact_bucket}}
            digest = models["minilm"]["cpu"].digest if models else "none"
            shown = {"Name": f"/{spec.base}/search", "Type": "String", "Value": digest}
            for name, resource in (
                ("foundation", bucket),
                ("endpoint-search", {"Type": "AWS::SSM::Parameter", "Properties": shown}),
            ):
                file = folder / f"{spec.base}-{name}.json"
                file.write_text(json.dumps({"Description": DESCRIPTION, "Resources": {"Thing": resource}}))
                properties = {"templateFile": file.name}
                artifacts[file.stem] = {"type": "aws:cloudformation:stack", "properties": properties}
        (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))

    def _deploy(self, name: str, template: str) -> None:
        client = self.cloud.client("cloudformation")
        try:
            (stack,) = client.describe_stacks(StackName=name)["Stacks"]
        except ClientError:
            stack = None
        if stack and stack["StackStatus"] == "REVIEW_IN_PROGRESS":
            client.delete_stack(StackName=name)  # moto would create a second one of this name
            stack = None
        if stack and client.get_template(StackName=name)["TemplateBody"] == json.loads(template):
            return
        plan = {"StackName": name, "ChangeSetName": "cdk-deploy-change-set"}
        kind = "UPDATE" if stack else "CREATE"
        client.create_change_set(**plan, ChangeSetType=kind, TemplateBody=template)
        client.describe_change_set(**plan)
        client.execute_change_set(**plan)
        client.describe_stacks(StackName=name)

    def run(self, *arguments: str, kill_at: int = 0, answered: bool = False) -> tuple[int, bool]:
        self.calls.clear()
        self.kill_at, self.answered = kill_at, answered
        try:
            code, out, err = outcome(self.capsys, self.project, *arguments)
            assert code == 0, (arguments, self.calls[-3:], out, err)
        except Killed:
            self.capsys.readouterr()
            return len(self.calls), True
        finally:
            self.kill_at = 0
        return len(self.calls), False

    def forget(self, environment: str) -> None:
        bucket = self.spec(environment).artifact_bucket
        if bucket in self.buckets():
            empty_bucket(self.cloud, bucket)
        self.project.lock_file(environment).unlink(missing_ok=True)

    def buckets(self) -> list[str]:
        return [item["Name"] for item in self.cloud.client("s3").list_buckets()["Buckets"]]


@pytest.fixture
def site(project, account, capsys, monkeypatch):
    site = Site(project, account, capsys, monkeypatch)
    for version in ("first", "second"):
        monkeypatch.setattr("tests.cli.builds.stand_in_job.CONTENT", f"{{model}} for {{target}}, {version}")
        folder = keep(project, "minilm", "cpu")
        manifest = parse_manifest((folder / MANIFEST_NAME).read_bytes(), origin="")
        add_to_lock(project.lock_file("dev"), [manifest], built=BUILT)
        site.repository.commit("Build")
    built = {"model": "minilm", "target": "cpu", "digest": folder.name, "directory": str(folder)}
    job = project.state_dir / "job.json"
    job.write_text(json.dumps({**built, "event": "built", "reused": False}) + "\n")
    monkeypatch.setattr(local_build, "build_command", lambda *_: ["cat", str(job)])
    return site


@pytest.mark.timeout(100 * KILLS)
def test_killed_commands_are_finished_by_the_same_commands(site):
    killer = Killer(site, KILLS, destroys=True, seed=1)
    killer.run()
    assert killer.killed == dict.fromkeys(COMMANDS, KILLS)
    assert [stack.name for stack in site.backend.stacks.values()] + site.buckets() == []
