"""One endpoint: its permissions, what it runs, its rollout, scaling and alarms."""

from __future__ import annotations

from typing import Any

import pytest

NAME = "tritonstack-sample-plain"
HOME = "eu-central-1:123456789012"
BUCKET = "arn:aws:s3:::tritonstack-sample-artifacts-123456789012-eu-central-1"


def only(template: Any, resource_type: str) -> tuple[str, dict[str, Any]]:
    """The one resource of a type, with its logical id."""
    (found,) = template.find_resources(resource_type).items()
    item: tuple[str, dict[str, Any]] = found
    return item


def properties(template: Any, resource_type: str) -> dict[str, Any]:
    found: dict[str, Any] = only(template, resource_type)[1]["Properties"]
    return found


def aslist(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.fixture
def plain(sample):
    return sample.endpoint("plain")


@pytest.fixture
def accelerated(sample):
    return sample.endpoint("accelerated")


def granted(template: Any, action: str) -> dict[str, Any]:
    """The one statement that allows an action."""
    policy = properties(template, "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    (found,) = [statement for statement in policy if action in aslist(statement["Action"])]
    statement: dict[str, Any] = found
    return statement


# Permissions


def test_role_reads_its_own_models_artifacts_only(plain):
    assert granted(plain, "s3:GetObject")["Resource"] == f"{BUCKET}/models/encoder/*"
    listing = granted(plain, "s3:ListBucket")
    assert listing["Resource"] == BUCKET
    assert listing["Condition"] == {"StringLike": {"s3:prefix": "models/encoder/*"}}


def test_role_decrypts_through_s3_and_for_the_artifact_bucket_only(plain):
    assert granted(plain, "kms:Decrypt")["Condition"] == {
        "StringEquals": {"kms:ViaService": "s3.eu-central-1.amazonaws.com"},
        "StringLike": {"kms:EncryptionContext:aws:s3:arn": [BUCKET, f"{BUCKET}/models/encoder/*"]},
    }


def test_role_pulls_sagemakers_triton_image_only(plain):
    repository = "arn:aws:ecr:eu-central-1:763104351884:repository/sagemaker-tritonserver"
    assert granted(plain, "ecr:BatchGetImage")["Resource"] == repository
    assert granted(plain, "ecr:GetAuthorizationToken")["Action"] == "ecr:GetAuthorizationToken"


def test_role_writes_its_own_log_and_sagemakers_metrics_only(plain):
    group = f"arn:aws:logs:{HOME}:log-group:/aws/sagemaker/Endpoints/{NAME}"
    assert granted(plain, "logs:PutLogEvents")["Resource"] == [group, f"{group}:*"]
    assert granted(plain, "cloudwatch:PutMetricData")["Condition"] == {
        "StringEquals": {"cloudwatch:namespace": ["AWS/SageMaker", "/aws/sagemaker/Endpoints"]}
    }


def test_role_sees_the_alarms_that_roll_back(plain):
    assert granted(plain, "cloudwatch:DescribeAlarms")["Resource"] == [
        f"arn:aws:cloudwatch:{HOME}:alarm:{NAME}-latency-p99",
        f"arn:aws:cloudwatch:{HOME}:alarm:{NAME}-server-errors",
    ]


def test_only_two_grants_are_on_everything_and_no_action_is_a_pattern(plain):
    policy = properties(plain, "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    unlimited = [action for s in policy if s["Resource"] == "*" for action in aslist(s["Action"])]
    assert sorted(unlimited) == ["cloudwatch:PutMetricData", "ecr:GetAuthorizationToken"]
    assert not [action for s in policy for action in aslist(s["Action"]) if "*" in action]


def test_role_has_no_managed_policy_and_is_sagemakers(plain):
    role = properties(plain, "AWS::IAM::Role")
    assert "ManagedPolicyArns" not in role
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "sagemaker.amazonaws.com"}


# What runs


def test_model_waits_for_the_roles_policy(plain):
    policy_id, _ = only(plain, "AWS::IAM::Policy")
    _, model = only(plain, "AWS::SageMaker::Model")
    assert policy_id in model["DependsOn"]


def test_model_serves_the_locked_artifact_without_a_network(plain):
    model = properties(plain, "AWS::SageMaker::Model")
    assert model["EnableNetworkIsolation"] is True
    assert "ModelName" not in model
    assert model["PrimaryContainer"] == {
        "Image": "763104351884.dkr.ecr.eu-central-1.amazonaws.com/sagemaker-tritonserver:25.04-py3-cpu",
        "ModelDataUrl": f"{BUCKET.replace('arn:aws:s3:::', 's3://')}/models/encoder/{'ab' * 32}/model.tar.gz",
        "Environment": {
            "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "encoder",
            "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
        },
    }


def test_gpu_endpoints_run_the_gpu_image(accelerated):
    image = properties(accelerated, "AWS::SageMaker::Model")["PrimaryContainer"]["Image"]
    assert image.endswith(":25.04-py3")


def test_configuration_is_named_by_cloudformation(plain):
    assert "EndpointConfigName" not in properties(plain, "AWS::SageMaker::EndpointConfig")


def test_variant(plain):
    config_id, config = only(plain, "AWS::SageMaker::EndpointConfig")
    model_id, _ = only(plain, "AWS::SageMaker::Model")
    (variant,) = config["Properties"]["ProductionVariants"]
    assert variant == {
        "VariantName": "main",
        "ModelName": {"Fn::GetAtt": [model_id, "ModelName"]},
        "InstanceType": "ml.c7i.xlarge",
        "InitialInstanceCount": 2,
        "InitialVariantWeight": 1,
        "VolumeSizeInGB": 30,
        "ContainerStartupHealthCheckTimeoutInSeconds": 700,
        "ModelDataDownloadTimeoutInSeconds": 800,
        "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
    }
    endpoint = properties(plain, "AWS::SageMaker::Endpoint")
    assert endpoint["EndpointConfigName"] == {"Fn::GetAtt": [config_id, "EndpointConfigName"]}


def test_volume_is_encrypted_with_the_environments_key(plain):
    assert properties(plain, "AWS::SageMaker::EndpointConfig")["KmsKeyId"] == "alias/tritonstack-sample"
    assert granted(plain, "kms:CreateGrant")["Condition"] == {
        "ForAnyValue:StringEquals": {"kms:ResourceAliases": "alias/tritonstack-sample"}
    }


def test_machines_with_disks_of_their_own_get_neither_volume_nor_key(accelerated):
    config = properties(accelerated, "AWS::SageMaker::EndpointConfig")
    assert "KmsKeyId" not in config
    assert "VolumeSizeInGB" not in config["ProductionVariants"][0]
    policy = properties(accelerated, "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    assert not [s for s in policy if "kms:CreateGrant" in aslist(s["Action"])]


# Rollout and scaling


def test_endpoint_keeps_its_instance_count_through_updates(plain):
    endpoint = properties(plain, "AWS::SageMaker::Endpoint")
    assert endpoint["EndpointName"] == NAME
    assert endpoint["RetainAllVariantProperties"] is True


def test_a_fixed_number_of_machines_is_neither_scaled_nor_retained(kept):
    fixed = kept.endpoint("fixed")
    fixed.resource_count_is("AWS::ApplicationAutoScaling::ScalableTarget", 0)
    fixed.resource_count_is("AWS::ApplicationAutoScaling::ScalingPolicy", 0)
    (variant,) = properties(fixed, "AWS::SageMaker::EndpointConfig")["ProductionVariants"]
    assert variant["InitialInstanceCount"] == 3
    assert properties(fixed, "AWS::SageMaker::Endpoint")["RetainAllVariantProperties"] is False


def test_updates_roll_back_on_latency_and_failures_but_not_on_bad_requests(plain):
    rollout = properties(plain, "AWS::SageMaker::Endpoint")["DeploymentConfig"]
    assert rollout["AutoRollbackConfiguration"] == {
        "Alarms": [{"AlarmName": f"{NAME}-latency-p99"}, {"AlarmName": f"{NAME}-server-errors"}]
    }
    policy = rollout["BlueGreenUpdatePolicy"]
    alarm = next(iter(plain.find_resources("AWS::CloudWatch::Alarm").values()))["Properties"]
    # The old machines must outlive one full evaluation of the alarms, or there is nothing to go back to.
    assert policy["TerminationWaitInSeconds"] > alarm["Period"] * alarm["EvaluationPeriods"]
    assert policy["MaximumExecutionTimeoutInSeconds"] > 700 + 800 + policy["TerminationWaitInSeconds"]


def test_what_the_endpoint_needs_is_made_before_it(plain):
    _, endpoint = only(plain, "AWS::SageMaker::Endpoint")
    log_id, _ = only(plain, "AWS::Logs::LogGroup")
    assert {log_id, *plain.find_resources("AWS::CloudWatch::Alarm")} <= set(endpoint["DependsOn"])


def test_scaling_follows_invocations_between_the_bounds(plain):
    endpoint_id, _ = only(plain, "AWS::SageMaker::Endpoint")
    target_id, target = only(plain, "AWS::ApplicationAutoScaling::ScalableTarget")
    assert target["DependsOn"] == [endpoint_id]
    assert target["Properties"] | {"Tags": None} == {
        "ServiceNamespace": "sagemaker",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        "ResourceId": f"endpoint/{NAME}/variant/main",
        "MinCapacity": 2,
        "MaxCapacity": 6,
        "Tags": None,
    }
    policy = properties(plain, "AWS::ApplicationAutoScaling::ScalingPolicy")
    assert policy["ScalingTargetId"] == {"Ref": target_id}
    assert policy["TargetTrackingScalingPolicyConfiguration"] == {
        "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
        "TargetValue": 900,
        "ScaleOutCooldown": 60,
        "ScaleInCooldown": 300,
    }


# Alarms and log


@pytest.mark.parametrize(
    ("alarm", "metric", "statistic", "threshold"),
    [
        ("latency-p99", "ModelLatency", {"ExtendedStatistic": "p99"}, 120_000),
        ("server-errors", "Invocation5XXErrors", {"Statistic": "Sum"}, 3),
        ("client-errors", "Invocation4XXErrors", {"Statistic": "Sum"}, 40),
    ],
)
def test_alarms(plain, alarm, metric, statistic, threshold):
    topic = f"arn:aws:sns:{HOME}:tritonstack-sample-alarms"
    plain.has_resource_properties(
        "AWS::CloudWatch::Alarm",
        {
            "AlarmName": f"{NAME}-{alarm}",
            "Namespace": "AWS/SageMaker",
            "MetricName": metric,
            "Dimensions": [
                {"Name": "EndpointName", "Value": NAME},
                {"Name": "VariantName", "Value": "main"},
            ],
            **statistic,
            "Threshold": threshold,
            "ComparisonOperator": "GreaterThanOrEqualToThreshold",
            "Period": 300,
            "TreatMissingData": "notBreaching",
            "AlarmActions": [topic],
            "OKActions": [topic],
        },
    )


def test_log_is_kept_as_long_as_asked_and_goes_with_the_environments_choice(plain, kept):
    _, log = only(plain, "AWS::Logs::LogGroup")
    assert log["Properties"]["LogGroupName"] == f"/aws/sagemaker/Endpoints/{NAME}"
    assert log["Properties"]["RetentionInDays"] == 14
    assert log["DeletionPolicy"] == "Delete"
    _, retained = only(kept.endpoint("plain"), "AWS::Logs::LogGroup")
    assert retained["DeletionPolicy"] == "RetainExceptOnCreate"
    assert retained["UpdateReplacePolicy"] == "Retain"


# The stack itself


def test_stack_follows_the_foundation_without_leaning_on_its_exports(sample, plain):
    stack = sample.manifest("tritonstack-sample-endpoint-plain")
    assert "tritonstack-sample-foundation" in stack["dependencies"]
    assert "Fn::ImportValue" not in sample.text("tritonstack-sample-endpoint-plain")
    assert plain.to_json()["Outputs"]["EndpointName"]["Value"] == NAME


def test_stack_and_resources_bear_the_environments_tags(sample, plain):
    expected = {"project": "tritonstack", "environment": "sample", "team": "search"}
    assert sample.manifest("tritonstack-sample-endpoint-plain")["properties"]["tags"] == expected
    tags = properties(plain, "AWS::SageMaker::Endpoint")["Tags"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == expected


def test_stack_goes_to_the_environments_account_and_region(sample):
    stack = sample.manifest("tritonstack-sample-endpoint-plain")
    assert stack["environment"] == "aws://123456789012/eu-central-1"
