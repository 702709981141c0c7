"""The real CDK CLI against the local cloud: bootstrap, deploy, diff, update, rollback, destroy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from packages.local_cloud.tests.cloudformation.stacks import StackDriver
from packages.local_cloud.tests.conftest import REGION, Account
from tests.credentials import variables_of

pytestmark = pytest.mark.soak

ROOT = Path(__file__).parents[4]

APP = """
import os, sys
os.environ["JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION"] = "20"
import aws_cdk as cdk
from aws_cdk import aws_iam as iam, aws_kms as kms, aws_s3 as s3, aws_sagemaker as sagemaker, aws_ssm as ssm

def synthesise(variant, environment):
    app = cdk.App(outdir=variant)
    stack = cdk.Stack(app, "Demo", env=environment)
    key = kms.Key(stack, "Key", removal_policy=cdk.RemovalPolicy.DESTROY, enable_key_rotation=True)
    bucket = s3.Bucket(
        stack, "Bucket", encryption=s3.BucketEncryption.KMS, encryption_key=key, versioned=True,
        enforce_ssl=True, block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    bucket.grant_read(role)
    name = None if variant == "one" else f"/demo/{variant}"
    first = ssm.StringParameter(stack, "First", string_value="x", parameter_name=name)
    ssm.StringParameter(
        stack, "Second", string_value=first.parameter_name, parameter_name="/demo/second"
    )
    if variant == "failing":
        bad = kms.CfnAlias(stack, "Bad", alias_name="alias/bad", target_key_id="no-such-key")
        bad.node.add_dependency(first)
    if variant == "queued":
        sagemaker.CfnEndpointConfig(
            stack, "Config",
            production_variants=[sagemaker.CfnEndpointConfig.ProductionVariantProperty(
                variant_name="main", model_name="m", initial_variant_weight=1,
                instance_type="ml.m7i.large", initial_instance_count=1,
            )],
            async_inference_config=sagemaker.CfnEndpointConfig.AsyncInferenceConfigProperty(
                output_config=sagemaker.CfnEndpointConfig.AsyncInferenceOutputConfigProperty(
                    s3_output_path="s3://answers",
                ),
            ),
        )
    cdk.CfnOutput(stack, "Name", value=bucket.bucket_name)
    app.synth()

for variant in ("one", "two", "failing", "queued"):
    synthesise(variant, cdk.Environment(account=sys.argv[1], region=sys.argv[2]))
"""


@dataclass(frozen=True)
class Cdk:
    """The CDK CLI in a folder, with its own account."""

    folder: Path
    account: Account

    def run(self, *command: str, exit_code: int = 0) -> str:
        variables = {
            **variables_of(self.account.endpoint_url, self.account.account_id, region=REGION),
            "CI": "1",
        }
        finished = subprocess.run(
            [str(ROOT / "node_modules" / ".bin" / "cdk"), *command],
            cwd=self.folder,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=200,
            check=False,
        )
        assert finished.returncode == exit_code, finished.stdout
        return finished.stdout

    def deploy(self, variant: str, *options: str, exit_code: int = 0) -> str:
        return self.run(
            "deploy", "--app", variant, "--require-approval", "never", *options, exit_code=exit_code
        )


@pytest.fixture
def cdk(account: Account, tmp_path: Path) -> Cdk:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "cdk.json").write_text(json.dumps({"notices": False, "versionReporting": False}))
    command = [sys.executable, "app.py", account.account_id, REGION]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    return Cdk(tmp_path, account)


def test_bootstrap_deploy_update_and_destroy(cdk: Cdk, account: Account) -> None:
    cdk.run("bootstrap", f"aws://{account.account_id}/{REGION}")
    bootstrap = account.inventory()
    assert "no changes" in cdk.run("bootstrap", f"aws://{account.account_id}/{REGION}")

    # An unsupported resource leaves nothing behind, not even a stack.
    rejection = cdk.deploy("queued", exit_code=1)
    assert "asynchronous endpoints run on AWS only." in rejection
    assert [item for item in account.inventory() if item["service"] != "s3"] == [
        item for item in bootstrap if item["service"] != "s3"
    ]

    cdk.deploy("one")
    assert "There were no differences" in cdk.run("diff", "--app", "one")
    assert "There were no differences" in cdk.run("diff", "--app", "one", "--method=template")
    assert "(no changes)" in cdk.deploy("one")

    difference = cdk.run("diff", "--app", "two")
    assert "requires replacement" in difference
    # The dependent of the replaced resource is in the diff, too.
    assert "AWS::SSM::Parameter Second" in difference
    cdk.deploy("two", "--method=direct")
    ssm = account.client("ssm")
    assert ssm.get_parameter(Name="/demo/second")["Parameter"]["Value"] == "/demo/two"
    assert "(no changes)" in cdk.deploy("two", "--method=direct")

    failure = cdk.deploy("failing", exit_code=1)
    assert "no-such-key" in failure
    assert ssm.get_parameter(Name="/demo/second")["Parameter"]["Value"] == "/demo/two"
    stack = StackDriver(account, "Demo")
    assert stack.described()["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert "There were no differences" in cdk.run("diff", "--app", "two")
    cdk.deploy("one")

    s3 = account.client("s3")
    s3.put_object(Bucket=stack.outputs()["Name"], Key="in-the-way", Body=b"")
    assert "not empty" in cdk.run("destroy", "--app", "one", "--force", exit_code=1)
    for version in s3.list_object_versions(Bucket=stack.outputs()["Name"])["Versions"]:
        s3.delete_object(Bucket=stack.outputs()["Name"], Key=version["Key"], VersionId=version["VersionId"])
    cdk.run("destroy", "--app", "one", "--force")
    left = [item for item in account.inventory() if not item.get("pending_deletion")]
    assert left == bootstrap
