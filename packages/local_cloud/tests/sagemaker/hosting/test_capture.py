"""Data capture through boto3: sampling, location, and format."""

import base64
import json
import re

import pytest

from packages.local_cloud.tests.sagemaker.cloud import a_variant, eventually


def capturing(cloud, name, *, percent=100, modes=("Input", "Output"), **settings):
    cloud.upload("there-is-a-bucket", b"")
    cloud.model(name, environment={"FAKE_ANSWER": "1,2"})
    config = {
        "InitialSamplingPercentage": percent,
        "DestinationS3Uri": f"s3://{cloud.bucket}/capture/",
        "CaptureOptions": [{"CaptureMode": mode} for mode in modes],
        **settings,
    }
    cloud.sagemaker.create_endpoint_config(
        EndpointConfigName=name, ProductionVariants=[a_variant(name)], DataCaptureConfig=config
    )


def created(cloud, **settings):
    capturing(cloud, "e", **settings)
    cloud.sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="e")
    assert cloud.settled("e")["EndpointStatus"] == "InService"


def ask(cloud, times=1, **fields):
    for _ in range(times):
        cloud.runtime.invoke_endpoint(**{"EndpointName": "e", "Body": b"ask", **fields})


def keys(cloud):
    found = cloud.client("s3").list_objects_v2(Bucket=cloud.bucket, Prefix="capture/")
    return [item["Key"] for item in found.get("Contents", ())]


def kept(cloud):
    """Return all capture records after deleting the endpoint."""
    cloud.delete()
    s3 = cloud.client("s3")
    files = [s3.get_object(Bucket=cloud.bucket, Key=key)["Body"].read().decode() for key in keys(cloud)]
    return [json.loads(line) for file in files for line in file.splitlines()]


def test_requests_and_responses_are_captured_as_json_lines(cloud):
    created(cloud, CaptureContentTypeHeader={"CsvContentTypes": ["text/csv"]})
    ask(cloud, ContentType="text/csv; charset=utf-8", InferenceId="id-1")
    ask(cloud, ContentType="application/octet-stream")
    text, binary = kept(cloud)
    assert text["captureData"] == {
        "endpointInput": {
            "observedContentType": "text/csv; charset=utf-8",
            "mode": "INPUT",
            "data": "ask",
            "encoding": "CSV",
        },
        "endpointOutput": {
            "observedContentType": "text/csv; charset=utf-8",
            "mode": "OUTPUT",
            "data": "1,2",
            "encoding": "CSV",
        },
    }
    assert text["eventMetadata"]["inferenceId"] == "id-1"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text["eventMetadata"]["inferenceTime"])
    assert text["eventVersion"] == "0"
    assert binary["captureData"]["endpointOutput"]["encoding"] == "BASE64"
    assert base64.b64decode(binary["captureData"]["endpointOutput"]["data"]) == b"1,2"
    assert "inferenceId" not in binary["eventMetadata"]
    pattern = r"capture/e/AllTraffic/\d{4}/\d\d/\d\d/\d\d/\d\d-\d\d-\d{3}-[0-9a-f-]{36}\.jsonl"
    assert all(re.fullmatch(pattern, key) for key in keys(cloud))


@pytest.mark.parametrize(
    ("modes", "sides"),
    [
        (["Input"], {"endpointInput"}),
        (["Output"], {"endpointOutput"}),
        (["InputAndOutput"], {"endpointInput", "endpointOutput"}),
    ],
)
def test_only_the_configured_modes_are_captured(cloud, modes, sides):
    created(cloud, modes=modes)
    ask(cloud)
    (record,) = kept(cloud)
    assert record["captureData"].keys() == sides


def test_captures_are_written_while_serving_with_the_kms_key(cloud):
    created(cloud, KmsKeyId="alias/data")
    ask(cloud)
    eventually(lambda: keys(cloud))
    held = cloud.client("s3").head_object(Bucket=cloud.bucket, Key=keys(cloud)[0])
    assert (held["ServerSideEncryption"], held["SSEKMSKeyId"]) == ("aws:kms", "alias/data")
