"""Names that retained resources already use, for every type that outlives its stack."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tritonstack.operate.deploy.cdk_changes import may_be_rejected
from tritonstack.operate.deploy.taken_names import TakenName, names_to_create, taken_names
from tritonstack.operate.shared.aws import Cloud

NAMES = {
    "AWS::S3::Bucket": ("BucketName", "kept"),
    "AWS::KMS::Alias": ("AliasName", "alias/kept"),
    "AWS::Logs::LogGroup": ("LogGroupName", "/kept"),
    "AWS::ECR::Repository": ("RepositoryName", "kept/serving"),
}
MAKE: dict[str, Callable[[Cloud, str], Any]] = {
    "AWS::S3::Bucket": lambda cloud, name: cloud.client("s3").create_bucket(Bucket=name),
    "AWS::KMS::Alias": lambda cloud, name: cloud.client("kms").create_alias(
        AliasName=name, TargetKeyId=cloud.client("kms").create_key()["KeyMetadata"]["KeyId"]
    ),
    "AWS::Logs::LogGroup": lambda cloud, name: cloud.client("logs").create_log_group(logGroupName=name),
    "AWS::ECR::Repository": lambda cloud, name: cloud.client("ecr").create_repository(repositoryName=name),
}


def template(kind: str, name: Any) -> dict[str, Any]:
    return {"Resources": {"Thing": {"Type": kind, "Properties": {NAMES[kind][0]: name}}}}


@pytest.mark.parametrize("kind", NAMES)
def test_existing_names_conflict(cloud, kind):
    name = NAMES[kind][1]
    wished = list(names_to_create("t-dev-foundation", None, template(kind, name)))
    assert wished == [TakenName("t-dev-foundation", "Thing", kind, name)]
    assert taken_names(cloud, wished) == []
    MAKE[kind](cloud, f"{name}-and-more")
    assert taken_names(cloud, wished) == []
    MAKE[kind](cloud, name)
    assert taken_names(cloud, wished) == wished


def test_names_created_by_the_same_stack_do_not_conflict(cloud):
    new = template("AWS::S3::Bucket", "kept")
    wished = list(names_to_create("t-dev-foundation", None, new))
    cloud.client("cloudformation").create_stack(StackName="t-dev-foundation", TemplateBody=json.dumps(new))
    assert taken_names(cloud, wished) == []
    of_another = list(names_to_create("t-dev-data", None, new))
    assert taken_names(cloud, of_another) == of_another


@pytest.mark.parametrize(
    ("before", "count"), [("kept", 0), ("other", 1), (None, 1)], ids=["held", "renamed", "new"]
)
def test_existing_resources_of_a_stack_are_not_created_again(before, count):
    deployed = template("AWS::S3::Bucket", before) if before else {"Resources": {}}
    assert len(list(names_to_create("s", deployed, template("AWS::S3::Bucket", "kept")))) == count
    # Generated names never conflict.
    assert list(names_to_create("s", None, template("AWS::S3::Bucket", {"Fn::Sub": "x"}))) == []
    assert list(names_to_create("s", None, {"Resources": {"Thing": {"Type": "AWS::S3::Bucket"}}})) == []


@pytest.mark.parametrize(
    ("kind", "needed"),
    [("AWS::S3::Bucket", True), ("AWS::CloudWatch::Alarm", False), ("AWS::SageMaker::Model", False)],
)
def test_the_cdk_diff_runs_only_for_possible_replacements(kind, *, needed):
    def side(value: str) -> dict[str, Any]:
        return {"Resources": {"Thing": {"Type": kind, "Properties": {"Some": value}}}}

    assert may_be_rejected(side("old"), side("new")) is needed
    assert not may_be_rejected(side("old"), side("old"))
    assert not may_be_rejected(None, side("new"))
