"""The control plane through boto3: records, rejections, and messages."""

import re

import boto3
import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from packages.local_cloud.tests.sagemaker.cloud import IMAGE, REGION, a_variant, role_of
from tests.credentials import keys_of
from tritonstack_local.sagemaker import ACCEPTED_WITHOUT_EFFECT
from tritonstack_local.sagemaker.rules import UNSUPPORTED


def _without_checks(cloud):
    """A client that skips botocore's parameter validation."""
    return boto3.client(
        "sagemaker",
        endpoint_url=cloud.url,
        region_name=REGION,
        **keys_of(cloud.url, cloud.account),
        config=Config(parameter_validation=False, retries={"total_max_attempts": 1}),
    )


def error_of(call, **request):
    with pytest.raises(ClientError) as caught:
        call(**request)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_a_model_is_described_as_created(cloud):
    arn = f"arn:aws:sagemaker:{REGION}:{cloud.account}:model/m"
    made = cloud.model(
        "m",
        url="s3://b/k",
        environment={"A": "1"},
        EnableNetworkIsolation=True,
        VpcConfig={"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]},
        Tags=[{"Key": "team", "Value": "search and find"}],
    )
    assert made["ModelArn"] == arn
    described = cloud.sagemaker.describe_model(ModelName="m")
    assert described["PrimaryContainer"] == {
        "Image": IMAGE,
        "Mode": "SingleModel",
        "ModelDataUrl": "s3://b/k",
        "Environment": {"A": "1"},
    }
    assert described["ExecutionRoleArn"] == role_of(cloud.sagemaker)
    assert described["EnableNetworkIsolation"] is True
    assert described["VpcConfig"]["Subnets"] == ["subnet-1"]
    assert described["CreationTime"].tzinfo is not None
    assert cloud.sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "team", "Value": "search and find"}]


def test_a_configuration_is_described_as_created(cloud):
    cloud.model("m")
    cloud.config("c", model="m", VolumeSizeInGB=5, ContainerStartupHealthCheckTimeoutInSeconds=90)
    described = cloud.sagemaker.describe_endpoint_config(EndpointConfigName="c")
    assert described["EndpointConfigArn"] == f"arn:aws:sagemaker:{REGION}:{cloud.account}:endpoint-config/c"
    assert described["ProductionVariants"] == [
        {
            **a_variant("m"),
            "InitialVariantWeight": 1.0,
            "VolumeSizeInGB": 5,
            "ContainerStartupHealthCheckTimeoutInSeconds": 90,
        }
    ]


def test_names_are_unique_and_missing_resources_are_named_by_arn(cloud):
    cloud.model("m")
    prefix = f"arn:aws:sagemaker:{REGION}:{cloud.account}"
    with pytest.raises(ClientError, match=f'already existing model "{prefix}:model/m".'):
        cloud.model("m")
    sagemaker = cloud.sagemaker
    weights = {"DesiredWeightsAndCapacities": [{"VariantName": "a"}]}
    for call, request, kind in (
        (sagemaker.describe_model, {"ModelName": "x"}, "model"),
        (sagemaker.delete_endpoint_config, {"EndpointConfigName": "x"}, "endpoint-config"),
        (sagemaker.describe_endpoint, {"EndpointName": "x"}, "endpoint"),
        (sagemaker.delete_endpoint, {"EndpointName": "x"}, "endpoint"),
        (sagemaker.update_endpoint_weights_and_capacities, {"EndpointName": "x", **weights}, "endpoint"),
        (sagemaker.create_endpoint, {"EndpointName": "e", "EndpointConfigName": "x"}, "endpoint-config"),
    ):
        code, message = error_of(call, **request)
        assert (code, f'"{prefix}:{kind}/x"' in message) == ("ValidationException", True)
    with pytest.raises(ClientError, match=f"{prefix}:model/x"):
        cloud.config("c", model="x")


def test_deletion_removes_tags(cloud):
    cloud.model("m", Tags=[{"Key": "a", "Value": "b"}])
    cloud.config("c", model="m")
    sagemaker = cloud.sagemaker
    sagemaker.delete_endpoint_config(EndpointConfigName="c")
    sagemaker.delete_model(ModelName="m")
    assert sagemaker.list_models()["Models"] == []
    assert sagemaker.list_endpoint_configs()["EndpointConfigs"] == []
    arn = f"arn:aws:sagemaker:{REGION}:{cloud.account}:model/m"
    assert arn in error_of(sagemaker.list_tags, ResourceArn=arn)[1]
    cloud.model("m")
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == []


def test_tags_are_added_replaced_and_removed(cloud):
    arn = cloud.model("m")["ModelArn"]
    sagemaker = cloud.sagemaker
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}])
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "a", "Value": "3"}])
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=["b"])
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "a", "Value": "3"}]


def test_lists_are_filtered_sorted_and_paged(cloud):
    for name in ("beta", "alpha-1", "alpha-2", "gamma"):
        cloud.model(name)
    sagemaker = cloud.sagemaker

    def names(**request):
        return [model["ModelName"] for model in sagemaker.list_models(**request)["Models"]]

    assert names() == ["gamma", "alpha-2", "alpha-1", "beta"]
    assert names(SortBy="Name", SortOrder="Ascending") == ["alpha-1", "alpha-2", "beta", "gamma"]
    assert names(NameContains="alpha", SortOrder="Ascending") == ["alpha-1", "alpha-2"]
    first = sagemaker.describe_model(ModelName="beta")["CreationTime"]
    assert "beta" not in names(CreationTimeAfter=first)
    pages = sagemaker.get_paginator("list_models").paginate(PaginationConfig={"PageSize": 3})
    assert [len(page["Models"]) for page in pages] == [3, 1]
    for token in ("x", "٣", "9" * 5000):
        code, message = error_of(sagemaker.list_models, NextToken=token)
        assert (code, message) == ("ValidationException", f"Invalid NextToken '{token}'.")


def test_accounts_and_regions_are_isolated(cloud):
    cloud.model("m")
    assert cloud.client("sagemaker", account="999999999999").list_models()["Models"] == []
    assert cloud.client("sagemaker", region="us-east-1").list_models()["Models"] == []
    cloud.client("sagemaker", region="us-east-1").create_model(
        ModelName="m", PrimaryContainer={"Image": IMAGE}
    )
    assert {(item["type"], item["id"], item["region"]) for item in cloud.app.inventory()} == {
        ("model", "m", REGION),
        ("model", "m", "us-east-1"),
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ModelName": "no_underscore"}, r"at 'modelName' failed .* regular expression pattern"),
        ({"ModelName": "a" * 64}, "at 'modelName' .* length less than or equal to 63"),
        ({"ModelName": None}, "Value null at 'modelName' failed to satisfy constraint: Member must not be"),
        ({"ExecutionRoleArn": "role"}, "at 'executionRoleArn' failed"),
        ({"PrimaryContainer": {"Image": IMAGE, "Mode": "Both"}}, r"'Both' at 'primaryContainer.mode' .*"),
        (
            {"PrimaryContainer": {"Image": IMAGE, "Environment": {"1x": "a"}}},
            "'1x' at 'primaryContainer.environment.key'",
        ),
        (
            {"PrimaryContainer": {"Image": IMAGE, "Environment": {f"K{n}": "v" for n in range(101)}}},
            "at 'primaryContainer.environment' .* length less than or equal to 100",
        ),
        ({"Tags": [{"Key": "ok", "Value": "no*"}]}, r"'no\*' at 'tags.1.member.value'"),
        ({"Tags": [{"Key": "größe 1", "Value": "ok"}], "ModelName": "-"}, "^1 validation error detected"),
    ],
)
def test_violations_of_the_service_model_are_reported_as_on_aws(cloud, change, words):
    request = {"ModelName": "m", "PrimaryContainer": {"Image": IMAGE}, **change}
    request = {name: value for name, value in request.items() if value is not None}
    code, message = error_of(_without_checks(cloud).create_model, **request)
    assert code == "ValidationException"
    assert re.search(words, message), message


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"Mode": "MultiModel"}, "ModelDataUrl must be given for a container in MultiModel mode"),
        ({"Environment": {"SAGEMAKER_MULTI_MODEL": "true"}}, "does not support SAGEMAKER_MULTI_MODEL=true"),
        ({"MultiModelConfig": {"ModelCacheSetting": "Enabled"}}, "for a container in MultiModel mode only"),
        ({"ModelPackageName": "p"}, "ContainerDefinition.ModelPackageName"),
        ({"Image": "nvcr.io/nvidia/tritonserver:24.09-py3"}, "Using non-ECR image"),
        ({"ModelDataUrl": "https://b/k"}, "only s3:// URLs are supported"),
        (
            {
                "ModelDataSource": {
                    "S3DataSource": {
                        "S3Uri": "s3://b/k/",
                        "S3DataType": "S3Prefix",
                        "CompressionType": "None",
                    }
                }
            },
            "ContainerDefinition.ModelDataSource",
        ),
    ],
)
def test_unsupported_containers_are_rejected(cloud, container, words):
    code, message = error_of(
        cloud.sagemaker.create_model, ModelName="m", PrimaryContainer={"Image": IMAGE, **container}
    )
    assert code == "ValidationException"
    assert words in message
    assert cloud.sagemaker.list_models()["Models"] == []


@pytest.mark.parametrize(
    ("config", "variant", "words"),
    [
        ({"AsyncInferenceConfig": {"OutputConfig": {"S3OutputPath": "s3://b"}}}, {}, "AsyncInferenceConfig"),
        ({"ShadowProductionVariants": [a_variant("m")]}, {}, "ShadowProductionVariants"),
        ({"ProductionVariants": [a_variant("m"), a_variant("m")]}, {}, "Two ProductionVariants have"),
        ({}, {"ServerlessConfig": {"MemorySizeInMB": 1024, "MaxConcurrency": 1}}, "ServerlessConfig"),
        ({}, {"ManagedInstanceScaling": {"Status": "ENABLED"}}, "ManagedInstanceScaling"),
        ({}, {"ModelName": None}, "ProductionVariant without ModelName"),
        ({}, {"RoutingConfig": {"RoutingStrategy": "KV_AWARE"}}, "does not support RoutingStrategy KV_AWARE"),
        ({}, {"InstanceType": None}, r"ProductionVariants\[0\].InstanceType must be given"),
        (
            {
                "DataCaptureConfig": {
                    "InitialSamplingPercentage": 1,
                    "DestinationS3Uri": "https://b",
                    "CaptureOptions": [{"CaptureMode": "Input"}],
                }
            },
            {},
            "does not support DataCaptureConfig.DestinationS3Uri=https://b: only s3:// URLs are supported",
        ),
    ],
)
def test_unsupported_configurations_are_rejected(cloud, config, variant, words):
    cloud.model("m")
    one = {name: value for name, value in {**a_variant("m"), **variant}.items() if value is not None}
    request = {"EndpointConfigName": "c", "ProductionVariants": [one], **config}
    with pytest.raises(ClientError, match=words):
        cloud.sagemaker.create_endpoint_config(**request)
    assert cloud.sagemaker.list_endpoint_configs()["EndpointConfigs"] == []


# Supported fields, which are in neither table.
IN_EFFECT = {
    "CreateModel": "ModelName PrimaryContainer Containers Tags",
    "ContainerDefinition": "Mode ModelDataUrl Environment MultiModelConfig",
    "CreateEndpointConfig": "EndpointConfigName ProductionVariants DataCaptureConfig Tags",
    "DataCaptureConfig": (
        "EnableCapture InitialSamplingPercentage DestinationS3Uri KmsKeyId CaptureOptions "
        "CaptureContentTypeHeader"
    ),
    "ProductionVariant": (
        "VariantName ModelName InitialVariantWeight InitialInstanceCount RoutingConfig "
        "ModelDataDownloadTimeoutInSeconds VolumeSizeInGB "
        "ContainerStartupHealthCheckTimeoutInSeconds"
    ),
    "CreateEndpoint": "EndpointName EndpointConfigName DeploymentConfig Tags",
    "ProductionVariantRoutingConfig": "RoutingStrategy",
    "UpdateEndpoint": (
        "EndpointName EndpointConfigName RetainAllVariantProperties "
        "ExcludeRetainedVariantProperties DeploymentConfig RetainDeploymentConfig"
    ),
    "DeploymentConfig": "BlueGreenUpdatePolicy RollingUpdatePolicy AutoRollbackConfiguration",
    "BlueGreenUpdatePolicy": (
        "TrafficRoutingConfiguration TerminationWaitInSeconds MaximumExecutionTimeoutInSeconds"
    ),
    "TrafficRoutingConfig": "Type WaitIntervalInSeconds CanarySize LinearStepSize",
    "RollingUpdatePolicy": (
        "MaximumBatchSize WaitIntervalInSeconds MaximumExecutionTimeoutInSeconds RollbackMaximumBatchSize"
    ),
    "AutoRollbackConfig": "Alarms",
    "UpdateEndpointWeightsAndCapacities": "EndpointName DesiredWeightsAndCapacities",
    "DesiredWeightAndCapacity": "VariantName DesiredWeight DesiredInstanceCount",
    "InvokeEndpoint": (
        "EndpointName Body ContentType Accept CustomAttributes TargetModel TargetVariant InferenceId"
    ),
}


@pytest.mark.parametrize("shape", sorted(IN_EFFECT))
def test_every_field_of_the_service_model_is_supported_rejected_or_listed(shape):
    service = "sagemaker-runtime" if shape == "InvokeEndpoint" else "sagemaker"
    model = botocore.session.get_session().get_service_model(service)
    known = (
        model.operation_model(shape).input_shape if shape in model.operation_names else model.shape_for(shape)
    )
    tables = [
        {name.split(".")[1] for name in table if name.startswith(f"{shape}.")}
        for table in (ACCEPTED_WITHOUT_EFFECT, UNSUPPORTED)
    ]
    assert tables[0] | tables[1] | set(IN_EFFECT[shape].split()) == set(known.members)
    assert not tables[0] & tables[1]
