"""S3, KMS, and ECR resources after creation, updates, and removed properties."""

import json

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.cloudformation.stacks import parameter, resource
from tritonstack_local.cloudformation.providers.s3_lifecycle import lifecycle_rules

TLS_ONLY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:*",
            "Resource": "*",
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
    ],
}

MANIFEST = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {
            "mediaType": "application/vnd.docker.container.image.v1+json",
            "size": 1,
            "digest": "sha256:1",
        },
        "layers": [],
    }
)


def test_a_bucket_with_all_properties_and_then_with_none(stack):
    full = resource(
        "AWS::S3::Bucket",
        BucketName="a-full-bucket",
        AccessControl="Private",
        BucketEncryption={
            "ServerSideEncryptionConfiguration": [
                {"BucketKeyEnabled": "true", "ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms"}}
            ]
        },
        VersioningConfiguration={"Status": "Enabled"},
        PublicAccessBlockConfiguration={"BlockPublicAcls": "true", "RestrictPublicBuckets": True},
        OwnershipControls={"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
        LifecycleConfiguration={"Rules": [{"Id": "old", "Status": "Enabled", "ExpirationInDays": "7"}]},
        LoggingConfiguration={"DestinationBucketName": {"Ref": "Logs"}, "LogFilePrefix": "x/"},
        Tags=[{"Key": "a", "Value": "b"}],
    )
    logs = resource("AWS::S3::Bucket", BucketName="a-log-bucket")
    stack.create({"Store": full, "Logs": logs})
    s3 = stack.account.client("s3")
    name = {"Bucket": "a-full-bucket"}
    rule = s3.get_bucket_encryption(**name)["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert rule["BucketKeyEnabled"] is True
    assert rule["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms"}
    assert s3.get_bucket_versioning(**name)["Status"] == "Enabled"
    block = s3.get_public_access_block(**name)["PublicAccessBlockConfiguration"]
    assert block["BlockPublicAcls"] is True
    assert block["RestrictPublicBuckets"] is True
    assert s3.get_bucket_lifecycle_configuration(**name)["Rules"][0]["Expiration"] == {"Days": 7}
    assert s3.get_bucket_logging(**name)["LoggingEnabled"]["TargetPrefix"] == "x/"
    assert s3.get_bucket_tagging(**name)["TagSet"] == [{"Key": "a", "Value": "b"}]
    assert s3.get_bucket_ownership_controls(**name)["OwnershipControls"]["Rules"]

    bare = resource("AWS::S3::Bucket", BucketName="a-full-bucket")
    assert stack.update({"Store": bare, "Logs": logs}) == "UPDATE_COMPLETE"
    assert s3.get_bucket_versioning(**name)["Status"] == "Suspended"
    assert "LoggingEnabled" not in s3.get_bucket_logging(**name)
    for gone in ("get_bucket_lifecycle_configuration", "get_public_access_block", "get_bucket_tagging"):
        with pytest.raises(ClientError):
            getattr(s3, gone)(**name)


def test_lifecycle_rules_are_translated():
    rules = lifecycle_rules(
        {
            "Rules": [
                {
                    "Id": "a",
                    "Status": "Enabled",
                    "Prefix": "tmp/",
                    "TagFilters": [{"Key": "k", "Value": "v"}],
                    "NoncurrentVersionExpiration": {"NoncurrentDays": 3},
                    "Transitions": [{"StorageClass": "GLACIER", "TransitionInDays": 1}],
                    "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": "1"},
                },
                {"Status": "Disabled", "ExpiredObjectDeleteMarker": "true"},
            ]
        }
    )
    assert rules == [
        {
            "ID": "a",
            "Status": "Enabled",
            "Filter": {"And": {"Prefix": "tmp/", "Tags": [{"Key": "k", "Value": "v"}]}},
            "NoncurrentVersionExpiration": {"NoncurrentDays": 3},
            "Transitions": [{"StorageClass": "GLACIER", "Days": 1}],
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
        },
        {"Status": "Disabled", "Filter": {"Prefix": ""}, "Expiration": {"ExpiredObjectDeleteMarker": True}},
    ]


def test_create_update_and_delete_a_bucket_policy(stack):
    bucket = resource("AWS::S3::Bucket", BucketName="with-a-policy")
    policy = resource("AWS::S3::BucketPolicy", Bucket={"Ref": "B"}, PolicyDocument=TLS_ONLY)
    stack.create({"B": bucket, "P": policy})
    s3 = stack.account.client("s3")
    assert json.loads(s3.get_bucket_policy(Bucket="with-a-policy")["Policy"]) == TLS_ONLY
    stack.update({"B": bucket})
    with pytest.raises(ClientError, match="NoSuchBucketPolicy"):
        s3.get_bucket_policy(Bucket="with-a-policy")


def test_a_key_and_its_alias(stack):
    policy = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "kms:*", "Resource": "*"}],
    }
    key = {"EnableKeyRotation": True, "KeyPolicy": policy, "PendingWindowInDays": 7}
    alias = resource("AWS::KMS::Alias", AliasName="alias/mine", TargetKeyId={"Fn::GetAtt": ["Key", "Arn"]})
    tags = [{"Key": "a", "Value": "b"}]
    stack.create({"Key": resource("AWS::KMS::Key", **key, Tags=tags), "Alias": alias})
    kms = stack.account.client("kms")
    key_id = stack.physical_ids()["Key"]
    assert kms.describe_key(KeyId="alias/mine")["KeyMetadata"]["KeyId"] == key_id
    assert kms.get_key_rotation_status(KeyId=key_id)["KeyRotationEnabled"] is True
    assert json.loads(kms.get_key_policy(KeyId=key_id, PolicyName="default")["Policy"]) == policy
    assert kms.list_resource_tags(KeyId=key_id)["Tags"] == [{"TagKey": "a", "TagValue": "b"}]

    changed = resource("AWS::KMS::Key", Description="new", KeyPolicy=policy, PendingWindowInDays=7)
    assert stack.update({"Key": changed, "Alias": alias}) == "UPDATE_COMPLETE"
    assert kms.describe_key(KeyId=key_id)["KeyMetadata"]["Description"] == "new"
    assert kms.get_key_rotation_status(KeyId=key_id)["KeyRotationEnabled"] is False
    assert kms.list_resource_tags(KeyId=key_id)["Tags"] == []

    stack.delete()
    assert kms.describe_key(KeyId=key_id)["KeyMetadata"]["KeyState"] == "PendingDeletion"
    assert not [item for item in kms.list_aliases()["Aliases"] if item["AliasName"] == "alias/mine"]


def test_a_repository(stack):
    untagged = {"tagStatus": "untagged", "countType": "imageCountMoreThan", "countNumber": 1}
    rule = {"rulePriority": 1, "selection": untagged, "action": {"type": "expire"}}
    lifecycle = json.dumps({"rules": [rule]})
    full = resource(
        "AWS::ECR::Repository",
        RepositoryName="images",
        ImageScanningConfiguration={"ScanOnPush": "true"},
        ImageTagMutability="IMMUTABLE",
        LifecyclePolicy={"LifecyclePolicyText": lifecycle},
        RepositoryPolicyText={
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "ecr:BatchGetImage"}],
        },
        Tags=[{"Key": "a", "Value": "b"}],
        EmptyOnDelete=True,
    )
    uri = parameter({"Fn::GetAtt": ["R", "RepositoryUri"]}, Name="/uri")
    assert stack.create({"R": full, "Uri": uri}) == "CREATE_COMPLETE", stack.reasons()
    ecr = stack.account.client("ecr")
    found = ecr.describe_repositories(repositoryNames=["images"])["repositories"][0]
    assert found["imageScanningConfiguration"] == {"scanOnPush": True}
    assert found["imageTagMutability"] == "IMMUTABLE"
    assert json.loads(ecr.get_lifecycle_policy(repositoryName="images")["lifecyclePolicyText"]) == {
        "rules": [rule]
    }
    value = stack.account.client("ssm").get_parameter(Name="/uri")["Parameter"]["Value"]
    assert value == found["repositoryUri"]

    bare = resource("AWS::ECR::Repository", RepositoryName="images", EmptyOnDelete=True)
    stack.update({"R": bare, "Uri": uri})
    found = ecr.describe_repositories(repositoryNames=["images"])["repositories"][0]
    assert found["imageTagMutability"] == "MUTABLE"
    with pytest.raises(ClientError, match="LifecyclePolicyNotFound"):
        ecr.get_lifecycle_policy(repositoryName="images")

    ecr.put_image(repositoryName="images", imageManifest=MANIFEST, imageTag="one")
    assert stack.delete() == "DELETE_COMPLETE"
    assert ecr.describe_repositories()["repositories"] == []
