"""Changes of a deployed environment. Each test starts from a copy of a saved deployment."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

from tests.e2e.conftest import REPOSITORY, Site
from tests.projects import edit
from tritonstack.client import EndpointClient
from tritonstack.operations.stacks import describe_stack, wait_until_settled
from tritonstack.project.loading import load_workspace
from tritonstack.records.lock_writing import Replacement, replace_entries

pytestmark = pytest.mark.e2e

DEPLOY_ALL = ("deploy", "--all", "--require-approval", "never")
SAME_ASSEMBLY = ("--app", "cdk.out")
"""What the CDK's previous command synthesized."""
NO_DIFFERENCE = "Number of stacks with differences: 0"


def endpoint_answers(site: Site) -> bool:
    """Return whether the endpoint is in service and returns one embedding per text."""
    name = site.spec.endpoint_name("minilm")
    described = site.cloud.client("sagemaker").describe_endpoint(EndpointName=name)
    client = EndpointClient(endpoint_name=name, runtime=site.cloud.client("sagemaker-runtime"))
    answer = client.infer({"TEXT": np.array([["A man is eating food."]], dtype=object)})["embedding"]
    return described["EndpointStatus"] == "InService" and answer.shape == (1, 384)


def lock_damaged_artifact(site: Site) -> None:
    """Publish a file that is no archive, and name it in the lock as the endpoint's artifact."""
    workspace = load_workspace(site.project, "local")
    instance = workspace.spec.endpoints["minilm"].instance
    artifact = workspace.artifact_for("minilm-embedding", instance)
    assert artifact is not None
    s3, bucket, digest = site.cloud.client("s3"), site.spec.artifact_bucket, "ab" * 32
    prefix = f"models/minilm-embedding/{digest}"
    s3.put_object(Bucket=bucket, Key=f"{prefix}/model.tar.gz", Body=b"not a tarball")
    s3.put_object(Bucket=bucket, Key=f"{prefix}/manifest.json", Body=b"{}")
    target = str(workspace.target_for("minilm-embedding", instance))
    damaged = artifact.model_copy(update={"digest": digest})
    replace_entries(
        site.project.lock_file("local"),
        artifacts=[Replacement("minilm-embedding", target, damaged, artifact)],
    )


def test_the_documented_script_deploys_and_verifies(deployed: Site) -> None:
    (deployed.project.root / ".gitignore").write_text(".tritonstack/\nnode_modules\n")
    deployed.git("init", "--quiet")
    deployed.git("add", "--all")
    deployed.git("commit", "--quiet", "--message", "First")
    page = (REPOSITORY.root / "docs/python.md").read_text()
    (script,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    output = deployed.run(sys.executable, "-c", script)
    assert output == "minilm: tritonstack-local-minilm is in service\n"


def test_the_cdk_shows_and_deploys_a_change(deployed: Site) -> None:
    for options in (["--method=change-set"], ["--method=template", *SAME_ASSEMBLY]):
        assert NO_DIFFERENCE in deployed.cdk("diff", *options), options
    edit(deployed.project.environment_file("local"), "latency_p99_ms: 250", "latency_p99_ms: 300")
    assert re.search(r"\[~\] AWS::CloudWatch::Alarm", deployed.cdk("diff"))
    deployed.cdk(*DEPLOY_ALL)
    alarms = deployed.cloud.client("cloudwatch").describe_alarms()["MetricAlarms"]
    assert 300_000 in {alarm["Threshold"] for alarm in alarms}
    assert NO_DIFFERENCE in deployed.cdk("diff", *SAME_ASSEMBLY)
    assert endpoint_answers(deployed)


def test_a_damaged_artifact_fails_with_the_containers_message_and_is_rolled_back(deployed: Site) -> None:
    lock_damaged_artifact(deployed)
    output = deployed.run("cdk", *DEPLOY_ALL, "-c", "env=local", with_cloud=True, exit_code=1)
    assert "UPDATE_FAILED" in output, output
    assert re.search(r"model\.tar\.gz|archive|gzip", output), output
    stack = f"{deployed.spec.base}-endpoint-minilm"
    wait_until_settled(deployed.cloud, [stack], on_change=lambda _: None)
    state = describe_stack(deployed.cloud, stack)
    assert state is not None
    assert state.status == "UPDATE_ROLLBACK_COMPLETE"
    assert endpoint_answers(deployed)

    deployed.tritonstack("build", "local", "--no-publish")
    deployed.tritonstack("deploy", "local")
    assert endpoint_answers(deployed)
