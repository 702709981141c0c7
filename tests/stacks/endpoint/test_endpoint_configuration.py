"""An endpoint's configuration: variants, instances, volumes, timeouts, data capture, and answers."""

from __future__ import annotations

import pytest

from tests.projects import edit
from tests.stacks.assemblies import lock_everything
from tests.stacks.templates import only, production, properties

CONFIG = "AWS::SageMaker::EndpointConfig"
KEY = {"Ref": "KeyArn"}


@pytest.fixture
def plain(sample):
    return sample.endpoint("plain")


def test_configuration_is_named_by_cloudformation(plain):
    assert "EndpointConfigName" not in properties(plain, CONFIG)


def test_variant(plain):
    config_id, config = only(plain, CONFIG)
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


KINDS = ["single", "shelf", "queued", "component", "compared", "shadowed", "rolled"]


@pytest.mark.parametrize("name", KINDS)
def test_no_endpoint_publishes_paid_metrics_by_default(every, name):
    """SageMaker turns on detailed observability if a configuration does not set it."""
    assert properties(every.endpoint(name), CONFIG)["MetricsConfig"] == {
        "EnableDetailedObservability": False,
        "EnableEnhancedMetrics": False,
        "MetricPublishFrequencyInSeconds": 60,
    }


def test_requested_metrics(bare_project, synthesize):
    project = bare_project()
    file = project.environment_file("kept")
    edit(file, "plain: {", "plain: {metrics: {detailed: true, enhanced: true, publish_every_s: 10}, ")
    template = synthesize(lock_everything(project, "kept")).endpoint("plain")
    assert properties(template, CONFIG)["MetricsConfig"] == {
        "EnableDetailedObservability": True,
        "EnableEnhancedMetrics": True,
        "MetricPublishFrequencyInSeconds": 10,
    }


def test_default_time_limits_depend_on_the_artifact(every):
    variant = production(every.endpoint("single"))
    # 90 MB packed and 180 MB unpacked: within the first minute above what every start takes.
    assert variant["ModelDataDownloadTimeoutInSeconds"] == 360
    assert variant["ContainerStartupHealthCheckTimeoutInSeconds"] == 360


def test_volume_is_encrypted_with_the_environments_key(plain):
    assert properties(plain, CONFIG)["KmsKeyId"] == KEY
    assert plain.to_json()["Parameters"]["KeyArn"] == {
        "Type": "AWS::SSM::Parameter::Value<String>",
        "Default": "/tritonstack-sample/key-arn",
        "Description": "Published by another stack of this environment",
    }


def test_instances_with_local_disks_get_no_volume_and_no_key(sample):
    accelerated = sample.endpoint("accelerated")
    assert "KmsKeyId" not in properties(accelerated, CONFIG)
    assert "VolumeSizeInGB" not in production(accelerated)


def test_on_cpus_sagemaker_chooses_the_host_image_by_default(plain):
    assert "InferenceAmiVersion" not in production(plain)


def test_the_requested_host_image_is_used(every):
    assert production(every.endpoint("rolled"))["InferenceAmiVersion"] == (
        "al2023-ami-sagemaker-inference-gpu-4-1"
    )


def test_multi_model_requests_are_routed_to_the_loaded_model(every):
    """SageMaker routes requests to instances with the loaded model; another routing would undo that."""
    variant = production(every.endpoint("shelf"))
    assert "RoutingConfig" not in variant
    assert "ModelDataDownloadTimeoutInSeconds" not in variant
    assert variant["VolumeSizeInGB"] == 32


def test_two_variants_share_the_requests(every):
    config = properties(every.endpoint("compared"), CONFIG)
    shares = {v["VariantName"]: v["InitialVariantWeight"] for v in config["ProductionVariants"]}
    assert shares == {"main": 0.7, "challenger": 0.3}
    assert "ShadowProductionVariants" not in config


def test_shadow_variant_has_its_own_weight(every):
    config = properties(every.endpoint("shadowed"), CONFIG)
    (main,), (shadow,) = config["ProductionVariants"], config["ShadowProductionVariants"]
    assert (main["VariantName"], main["InitialVariantWeight"]) == ("main", 1)
    assert (shadow["VariantName"], shadow["InitialVariantWeight"]) == ("shadow", 0.5)
    assert shadow["InstanceType"] == "ml.g5.xlarge"


def test_variant_with_local_disks_has_unencrypted_volumes_and_a_warning(every):
    assert "KmsKeyId" not in properties(every.endpoint("shadowed"), CONFIG)
    metadata = (every.folder / "tritonstack-every-endpoint-shadowed.metadata.json").read_text()
    assert "SageMaker accepts no volume key" in metadata


def test_capture_keeps_a_sample_encrypted_under_the_endpoints_prefix(every):
    assert properties(every.endpoint("shadowed"), CONFIG)["DataCaptureConfig"] == {
        "EnableCapture": True,
        "InitialSamplingPercentage": 5,
        "DestinationS3Uri": "s3://tritonstack-every-data-123456789012-us-east-1"
        "/capture/tritonstack-every-shadowed",
        "KmsKeyId": KEY,
        "CaptureOptions": [{"CaptureMode": "Input"}],
        "CaptureContentTypeHeader": {"JsonContentTypes": ["application/json"]},
    }


def test_data_capture_is_off_by_default(plain):
    assert "DataCaptureConfig" not in properties(plain, CONFIG)
