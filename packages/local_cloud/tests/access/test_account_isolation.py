"""Accounts are isolated, except where a trust policy allows access."""

import hashlib
import itertools
import json

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.access.test_guard import client_with
from packages.local_cloud.tests.cloudformation.stacks import StackDriver, resource
from packages.local_cloud.tests.conftest import REGION, Account
from packages.local_cloud.tests.sagemaker.cloud import IMAGE

_names = itertools.count()
DENIED = {"AccessDenied", "AccessDeniedException", "403"}
NOT_FOUND = {
    *("NotFoundException", "ParameterNotFound", "RepositoryNotFoundException", "ResourceNotFoundException"),
    "AWS.SimpleQueueService.NonExistentQueue",
}


@pytest.fixture
def other(account):
    return Account(account.endpoint_url)


@pytest.fixture
def bucket(account):
    name, s3 = f"private-{next(_names)}", account.client("s3")
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket=name, Key="team/a", Body=b"private")
    s3.put_object(Bucket=name, Key="b", Body=b"private")
    return name


def code_of(call, *arguments, **fields):
    """Return the error code of a call; None if it succeeds."""
    try:
        call(*arguments, **fields)
    except ClientError as error:
        return error.response["Error"]["Code"]
    return None


ACCESSES = {
    "get": lambda s3, bucket: s3.get_object(Bucket=bucket, Key="b")["Body"].read(),
    "head": lambda s3, bucket: s3.head_object(Bucket=bucket, Key="b"),
    "put": lambda s3, bucket: s3.put_object(Bucket=bucket, Key="new", Body=b"x"),
    "overwrite": lambda s3, bucket: s3.put_object(Bucket=bucket, Key="b", Body=b"x"),
    "delete": lambda s3, bucket: s3.delete_object(Bucket=bucket, Key="b"),
    "delete many": lambda s3, bucket: s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "b"}]}),
    "multipart": lambda s3, bucket: s3.create_multipart_upload(Bucket=bucket, Key="new"),
    "tag": lambda s3, bucket: s3.put_object_tagging(Bucket=bucket, Key="b", Tagging={"TagSet": []}),
    "acl": lambda s3, bucket: s3.put_object_acl(Bucket=bucket, Key="b", ACL="public-read"),
    "attributes": lambda s3, bucket: s3.get_object_attributes(
        Bucket=bucket, Key="b", ObjectAttributes=["ObjectSize"]
    ),
    "list": lambda s3, bucket: s3.list_objects_v2(Bucket=bucket),
    "versions": lambda s3, bucket: s3.list_object_versions(Bucket=bucket),
    "location": lambda s3, bucket: s3.get_bucket_location(Bucket=bucket),
    "head bucket": lambda s3, bucket: s3.head_bucket(Bucket=bucket),
    "policy": lambda s3, bucket: s3.get_bucket_policy(Bucket=bucket),
    "put policy": lambda s3, bucket: s3.put_bucket_policy(Bucket=bucket, Policy=policy("*")),
    "delete policy": lambda s3, bucket: s3.delete_bucket_policy(Bucket=bucket),
    "encryption": lambda s3, bucket: s3.get_bucket_encryption(Bucket=bucket),
    "public access block": lambda s3, bucket: s3.delete_public_access_block(Bucket=bucket),
    "versioning": lambda s3, bucket: s3.put_bucket_versioning(
        Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}
    ),
    "delete bucket": lambda s3, bucket: s3.delete_bucket(Bucket=bucket),
}


def policy(principal):
    statement = {"Effect": "Allow", "Principal": principal, "Action": "s3:*", "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def snapshot(account, bucket):
    s3 = account.client("s3")
    return [(item["Key"], item["ETag"]) for item in s3.list_objects_v2(Bucket=bucket)["Contents"]]


@pytest.mark.parametrize("access", ACCESSES)
def test_buckets_of_other_accounts_are_denied(account, other, bucket, access):
    before = snapshot(account, bucket)
    assert code_of(ACCESSES[access], other.client("s3"), bucket) in DENIED
    public_policy = policy("*")
    account.client("s3").put_bucket_policy(Bucket=bucket, Policy=public_policy)
    assert code_of(ACCESSES[access], other.client("s3"), bucket) in DENIED
    assert snapshot(account, bucket) == before
    stored_policy = account.client("s3").get_bucket_policy(Bucket=bucket)["Policy"]
    assert json.loads(stored_policy) == json.loads(public_policy)


def test_a_copy_reads_its_source_with_the_callers_permissions(account, other, bucket):
    mine = f"copies-{next(_names)}"
    s3 = other.client("s3")
    s3.create_bucket(Bucket=mine, CreateBucketConfiguration={"LocationConstraint": REGION})
    source = {"Bucket": bucket, "Key": "b"}
    assert code_of(s3.copy_object, Bucket=mine, Key="stolen", CopySource=source) in DENIED
    upload = s3.create_multipart_upload(Bucket=mine, Key="stolen")["UploadId"]
    part = {"Bucket": mine, "Key": "stolen", "UploadId": upload, "PartNumber": 1, "CopySource": source}
    assert code_of(s3.upload_part_copy, **part) in DENIED
    assert code_of(other.client("s3").copy_object, Bucket=bucket, Key="c", CopySource=source) in DENIED


def create_role_for(account, principal):
    statement = {"Effect": "Allow", "Principal": {"AWS": principal}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    name = f"role-{next(_names)}"
    return account.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"]


def test_a_role_can_be_assumed_by_trusted_accounts(account, other):
    sts = other.client("sts")
    own_role = create_role_for(account, f"arn:aws:iam::{account.account_id}:root")
    assert code_of(sts.assume_role, RoleArn=own_role, RoleSessionName="me") == "AccessDenied"
    for owner in (account.account_id, other.account_id):
        missing = f"arn:aws:iam::{owner}:role/missing"
        assert code_of(sts.assume_role, RoleArn=missing, RoleSessionName="me") == "AccessDenied"
    shared_role = create_role_for(account, f"arn:aws:iam::{other.account_id}:root")
    credentials = sts.assume_role(RoleArn=shared_role, RoleSessionName="me")["Credentials"]
    key = [credentials[name] for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")]
    assert client_with(account, "sts", *key).get_caller_identity()["Account"] == account.account_id


def kms(mine, theirs):
    key = mine.client("kms").create_key()["KeyMetadata"]["Arn"]
    yield theirs.client("kms").describe_key, {"KeyId": key}
    yield theirs.client("kms").encrypt, {"KeyId": key, "Plaintext": b"x"}
    yield theirs.client("kms").schedule_key_deletion, {"KeyId": key.rpartition("/")[2]}


def sns(mine, theirs):
    topic = mine.client("sns").create_topic(Name="t")["TopicArn"]
    yield theirs.client("sns").publish, {"TopicArn": topic, "Message": "x"}
    yield theirs.client("sns").get_topic_attributes, {"TopicArn": topic}
    yield theirs.client("sns").subscribe, {"TopicArn": topic, "Protocol": "email", "Endpoint": "a@b.c"}


def sqs(mine, theirs):
    url = mine.client("sqs").create_queue(QueueName="q")["QueueUrl"]
    mine.client("sqs").send_message(QueueUrl=url, MessageBody="private")
    yield theirs.client("sqs").receive_message, {"QueueUrl": url}
    yield theirs.client("sqs").send_message, {"QueueUrl": url, "MessageBody": "x"}
    yield theirs.client("sqs").delete_queue, {"QueueUrl": url}


def ssm(mine, theirs):
    mine.client("ssm").put_parameter(Name="/a", Value="private", Type="String")
    arn = f"arn:aws:ssm:{REGION}:{mine.account_id}:parameter/a"
    yield theirs.client("ssm").get_parameter, {"Name": arn}


def secretsmanager(mine, theirs):
    arn = mine.client("secretsmanager").create_secret(Name="s", SecretString="private")["ARN"]
    yield theirs.client("secretsmanager").get_secret_value, {"SecretId": arn}


def ecr(mine, theirs):
    mine.client("ecr").create_repository(repositoryName="images")
    layer = b"layer"
    digest = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    upload = mine.client("ecr").initiate_layer_upload(repositoryName="images")["uploadId"]
    part = {"partFirstByte": 0, "partLastByte": len(layer) - 1, "layerPartBlob": layer}
    mine.client("ecr").upload_layer_part(repositoryName="images", uploadId=upload, **part)
    mine.client("ecr").complete_layer_upload(repositoryName="images", uploadId=upload, layerDigests=[digest])
    repository = {"registryId": mine.account_id, "repositoryName": "images"}
    yield theirs.client("ecr").list_images, repository
    yield theirs.client("ecr").initiate_layer_upload, repository
    yield theirs.client("ecr").get_download_url_for_layer, {**repository, "layerDigest": digest}
    yield theirs.client("ecr").delete_repository, {**repository, "force": True}


def sagemaker(mine, theirs):
    container = {"Image": "763104351884.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-tritonserver:24.09-py3"}
    role = f"arn:aws:iam::{mine.account_id}:role/endpoint"
    arn = mine.client("sagemaker").create_model(
        ModelName="m", ExecutionRoleArn=role, PrimaryContainer=container
    )["ModelArn"]
    yield theirs.client("sagemaker").describe_model, {"ModelName": "m"}
    yield theirs.client("sagemaker").list_tags, {"ResourceArn": arn}
    yield theirs.client("sagemaker").add_tags, {"ResourceArn": arn, "Tags": [{"Key": "k", "Value": "v"}]}
    yield theirs.client("sagemaker").delete_model, {"ModelName": "m"}


def cloudformation(mine, theirs):
    StackDriver(mine).create({"T": resource("AWS::SNS::Topic")})
    stack = mine.client("cloudformation").describe_stacks()["Stacks"][0]["StackId"]
    yield theirs.client("cloudformation").describe_stacks, {"StackName": stack}
    yield theirs.client("cloudformation").get_template, {"StackName": stack}
    yield theirs.client("cloudformation").describe_stack_resources, {"StackName": stack}


def logs(mine, theirs):
    mine.client("logs").create_log_group(logGroupName="g")
    yield theirs.client("logs").filter_log_events, {"logGroupName": "g"}
    yield theirs.client("logs").delete_log_group, {"logGroupName": "g"}


def dynamodb(mine, theirs):
    table = mine.client("dynamodb").create_table(
        TableName="t",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )["TableDescription"]["TableArn"]
    yield theirs.client("dynamodb").describe_table, {"TableName": table}
    yield theirs.client("dynamodb").put_item, {"TableName": table, "Item": {"k": {"S": "x"}}}


def codebuild(mine, theirs):
    mine.client("codebuild").create_project(
        name="project",
        source={"type": "NO_SOURCE", "buildspec": json.dumps({"version": 0.2, "phases": {}})},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={
            "type": "LINUX_CONTAINER",
            "image": "aws/codebuild/standard:7.0",
            "computeType": "BUILD_GENERAL1_SMALL",
        },
        serviceRole=create_role_for(mine, mine.account_id),
    )
    yield theirs.client("codebuild").update_project, {"name": "project", "description": "changed"}
    yield theirs.client("codebuild").list_builds_for_project, {"projectName": "project"}


# Each yields requests of account `theirs` for resources of account `mine`.
SERVICES = (kms, sns, sqs, ssm, secretsmanager, ecr, sagemaker, cloudformation, logs, dynamodb, codebuild)


def is_denial(error):
    """Return whether the account was denied, or the resource was not found in the caller's account."""
    code, message = error["Code"], error["Message"]
    if code in ("ValidationException", "ValidationError"):
        return message.startswith("Could not find") or message.endswith("does not exist")
    return code in DENIED | NOT_FOUND


@pytest.mark.parametrize("attempts", SERVICES, ids=lambda service: service.__name__)
def test_other_services_deny_cross_account_requests(account, other, attempts):
    requests = 0
    for call, fields in attempts(account, other):
        with pytest.raises(ClientError) as caught:
            call(**fields)
        assert is_denial(caught.value.response["Error"]), caught.value
        requests += 1
    assert requests


@pytest.mark.parametrize("attempts", SERVICES, ids=lambda service: service.__name__)
def test_owner_of_a_resource_can_send_the_same_requests(account, attempts):
    """The requests above are denied because of the account, not because of a mistake in them."""
    statuses = [
        call(**fields)["ResponseMetadata"]["HTTPStatusCode"] for call, fields in attempts(account, account)
    ]
    assert statuses
    assert set(statuses) == {200}


@pytest.mark.parametrize("source", ["{bucket}/b", "/{bucket}/b", "//{own}/{bucket}/b"])
def test_every_form_of_copy_source_is_denied_for_foreign_buckets(other, bucket, source):
    own, s3 = f"own-{next(_names)}", other.client("s3")
    s3.create_bucket(Bucket=own, CreateBucketConfiguration={"LocationConstraint": REGION})
    source = source.format(own=own, bucket=bucket)
    assert code_of(s3.copy_object, Bucket=own, Key="copy", CopySource=source) in DENIED
    assert "Contents" not in s3.list_objects_v2(Bucket=own)


ROLE_PASSING_CALLS = {
    "CreateModel": lambda account, role: account.client("sagemaker").create_model(
        ModelName="m", ExecutionRoleArn=role, PrimaryContainer={"Image": IMAGE}
    ),
    "CreateProject": lambda account, role: account.client("codebuild").create_project(
        name="pp",
        source={"type": "NO_SOURCE", "buildspec": "version: 0.2"},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={"type": "LINUX_CONTAINER", "image": "i", "computeType": "BUILD_GENERAL1_SMALL"},
        serviceRole=role,
    ),
    "UpdateProject": lambda account, role: account.client("codebuild").update_project(
        name="pp", serviceRole=role
    ),
    "StartBuild": lambda account, role: account.client("codebuild").start_build(
        projectName="pp", serviceRoleOverride=role
    ),
    "CreateStack": lambda account, role: account.client("cloudformation").create_stack(
        StackName="s", TemplateBody="{}", RoleARN=role
    ),
    "CreateChangeSet": lambda account, role: account.client("cloudformation").create_change_set(
        StackName="s", ChangeSetName="c", ChangeSetType="CREATE", TemplateBody="{}", RoleARN=role
    ),
    "RegisterScalableTarget": lambda account, role: account.client(
        "application-autoscaling"
    ).register_scalable_target(
        ServiceNamespace="sagemaker",
        ResourceId="endpoint/e/variant/v",
        ScalableDimension="sagemaker:variant:DesiredInstanceCount",
        MinCapacity=1,
        MaxCapacity=2,
        RoleARN=role,
    ),
    "PutTargets": lambda account, role: account.client("events").put_targets(
        Rule="r",
        Targets=[{"Id": "1", "Arn": f"arn:aws:sns:eu-west-1:{account.account_id}:t", "RoleArn": role}],
    ),
}


@pytest.mark.parametrize("call", ROLE_PASSING_CALLS)
def test_roles_of_other_accounts_cannot_be_passed(account, other, call):
    role = f"arn:aws:iam::{other.account_id}:role/any"
    with pytest.raises(ClientError) as caught:
        ROLE_PASSING_CALLS[call](account, role)
    assert caught.value.response["Error"]["Code"] in DENIED
    assert "pass role" in caught.value.response["Error"]["Message"]
    own_role = role.replace(other.account_id, account.account_id)
    assert code_of(ROLE_PASSING_CALLS[call], account, own_role) not in DENIED
