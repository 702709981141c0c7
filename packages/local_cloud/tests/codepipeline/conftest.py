"""A pipeline in its own account, with a source, an artifact store, and a test's stages."""

from __future__ import annotations

import io
import json
import time
import zipfile
from dataclasses import dataclass
from typing import Any

import pytest

from packages.local_cloud.tests.conftest import Account

PATIENCE_S = 20
SOURCE = {
    "name": "Source",
    "actions": [
        {
            "name": "Fetch",
            "actionTypeId": {"category": "Source", "owner": "AWS", "provider": "S3", "version": "1"},
            "outputArtifacts": [{"name": "Source"}],
            "namespace": "Source",
        }
    ],
}


def action(
    kind: str, name: str, *, inputs: tuple[str, ...] = (), order: int = 1, **more: Any
) -> dict[str, Any]:
    """Declare an action; `kind` is `Category/Provider`, other arguments are its configuration."""
    category, provider = kind.split("/")
    declared = {key: more.pop(key) for key in ("outputArtifacts", "namespace", "roleArn") if key in more}
    return {
        "name": name,
        "actionTypeId": {"category": category, "owner": "AWS", "provider": provider, "version": "1"},
        "runOrder": order,
        "inputArtifacts": [{"name": given} for given in inputs],
        "configuration": more,
        **declared,
    }


def stack_stage(**more: Any) -> dict[str, Any]:
    """Declare a stage that deploys the source's template."""
    settings = {"StackName": "app", "ActionMode": "CREATE_UPDATE", "TemplatePath": "Source::template.json"}
    return {
        "name": "Deploy",
        "actions": [action("Deploy/CloudFormation", "App", inputs=("Source",), **{**settings, **more})],
    }


def document(*statements: dict[str, Any]) -> str:
    """Return a policy document."""
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def statement(effect: str = "Allow", **fields: Any) -> dict[str, Any]:
    """Return a policy statement on AssumeRole."""
    return {"Effect": effect, "Action": "sts:AssumeRole", **fields}


@dataclass
class Pipeline:
    """One pipeline."""

    account: Account
    name: str = "delivery"

    def client(self, service: str) -> Any:
        return self.account.client(service)

    @property
    def api(self) -> Any:
        return self.client("codepipeline")

    @property
    def bucket(self) -> str:
        return f"pipeline-{self.account.account_id}"

    def prepare(self) -> None:
        s3 = self.client("s3")
        where = {"LocationConstraint": self.account.region}
        s3.create_bucket(Bucket=self.bucket, CreateBucketConfiguration=where)
        s3.put_bucket_versioning(Bucket=self.bucket, VersioningConfiguration={"Status": "Enabled"})

    def commit(self, **files: str) -> str:
        """Upload a source; returns its version."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for name, content in files.items():
                archive.writestr(name.replace("_", "."), content)
        put = self.client("s3").put_object(Bucket=self.bucket, Key="source.zip", Body=packed.getvalue())
        return str(put["VersionId"])

    def declaration(self, *stages: dict[str, Any], **more: Any) -> dict[str, Any]:
        source = json.loads(json.dumps(SOURCE))
        source["actions"][0]["configuration"] = {"S3Bucket": self.bucket, "S3ObjectKey": "source.zip"}
        return {
            "name": self.name,
            "roleArn": f"arn:aws:iam::{self.account.account_id}:role/pipeline",
            "artifactStore": {"type": "S3", "location": self.bucket},
            "pipelineType": "V2",
            "stages": [source, *stages],
            **more,
        }

    def create(self, *stages: dict[str, Any], **more: Any) -> str:
        """Create the pipeline; returns the id of its first execution."""
        self.api.create_pipeline(pipeline=self.declaration(*stages, **more))
        return str(self.executions()[0]["pipelineExecutionId"])

    def executions(self) -> list[dict[str, Any]]:
        listed = self.api.list_pipeline_executions(pipelineName=self.name)["pipelineExecutionSummaries"]
        return list(listed)

    def status(self, execution: str) -> str:
        got = self.api.get_pipeline_execution(pipelineName=self.name, pipelineExecutionId=execution)
        return str(got["pipelineExecution"]["status"])

    def settled(self, execution: str) -> str:
        return self.await_(
            lambda: self.status(execution), lambda status: status not in {"InProgress", "Stopping"}
        )

    def action(self, stage: str, name: str) -> dict[str, Any]:
        """The latest execution of an action."""
        states = {
            item["stageName"]: item for item in self.api.get_pipeline_state(name=self.name)["stageStates"]
        }
        found = next(item for item in states[stage]["actionStates"] if item["actionName"] == name)
        return dict(found.get("latestExecution", {}))

    def waiting(self, stage: str, name: str) -> str:
        """Return the token of a pending approval."""
        return str(self.await_(lambda: self.action(stage, name).get("token"), bool))

    def decide(self, stage: str, name: str, token: str, status: str, summary: str = "seen") -> None:
        self.api.put_approval_result(
            pipelineName=self.name,
            stageName=stage,
            actionName=name,
            token=token,
            result={"summary": summary, "status": status},
        )

    @staticmethod
    def await_(look: Any, wanted: Any) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while not wanted(found := look()):
            assert time.monotonic() < deadline, found
            time.sleep(0.02)
        return found


@pytest.fixture
def pipeline(account: Account) -> Pipeline:
    made = Pipeline(account)
    made.prepare()
    return made
