"""InvokeEndpoint through boto3: forwarding, and the error of each failure."""

import json

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.sagemaker.cloud import REGION


@pytest.fixture
def endpoint(cloud):
    assert cloud.create(environment={"FAKE_ANSWER": "yes"})["EndpointStatus"] == "InService"
    return cloud


def failure(cloud, body=b"ask", **fields):
    with pytest.raises(ClientError) as caught:
        cloud.runtime.invoke_endpoint(**{"EndpointName": "e", "Body": body, **fields})
    return caught.value.response


def test_body_and_headers_pass_through(endpoint):
    answer = endpoint.runtime.invoke_endpoint(
        EndpointName="e",
        Body=b"ask",
        ContentType="application/vnd.sagemaker-triton.binary+json;json-header-size=7",
        CustomAttributes="trace=1",
        TargetVariant="AllTraffic",
        InferenceId="id-1",
    )
    assert answer["Body"].read() == b"yes"
    assert answer["ContentType"] == "application/vnd.sagemaker-triton.binary+json;json-header-size=7"
    assert answer["InvokedProductionVariant"] == "AllTraffic"
    assert answer["CustomAttributes"] == "trace=1"


@pytest.mark.parametrize(("status", "side"), [(404, "client"), (503, "server")])
def test_container_errors_become_model_errors(endpoint, status, side):
    response = failure(endpoint, f"status={status}".encode())
    group = "/aws/sagemaker/Endpoints/e"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 424
    assert response["Error"]["Code"] == "ModelError"
    assert f"{side} error ({status}) from primary" in response["Error"]["Message"]
    assert response["OriginalMessage"] in response["Error"]["Message"]
    assert f"group={group} in account {endpoint.account} for more" in response["Error"]["Message"]
    assert response["OriginalStatusCode"] == status
    assert json.loads(response["OriginalMessage"]).keys() == {"error"}
    assert response["LogStreamArn"] == f"arn:aws:logs:{REGION}:{endpoint.account}:log-group:{group}"


def test_a_container_that_times_out(endpoint):
    response = failure(endpoint, b"slow")
    assert response["Error"]["Code"] == "ModelError"
    assert response["OriginalStatusCode"] == 0
    assert response["OriginalMessage"].startswith("Your invocation")


def test_a_dead_container(endpoint):
    response = failure(endpoint, b"dead")
    assert response["Error"]["Code"] == "InternalFailure"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 500


def test_missing_endpoints_and_endpoints_of_other_accounts(endpoint):
    expected = ("ValidationError", f"Endpoint other of account {endpoint.account} not found.")
    error = failure(endpoint, EndpointName="other")["Error"]
    assert (error["Code"], error["Message"]) == expected
    with pytest.raises(ClientError, match="account 999999999999"):
        endpoint.client("sagemaker-runtime", account="999999999999").invoke_endpoint(
            EndpointName="e", Body=b"ask"
        )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"TargetModel": "m.tar.gz"},
            "Endpoint e is not a multi-model endpoint and does not support target model header.",
        ),
        ({"InferenceComponentName": "c"}, "InvokeEndpoint.InferenceComponentName"),
        ({"SessionId": "NEW_SESSION"}, "InvokeEndpoint.SessionId"),
        ({"TargetVariant": "other"}, "Variant other not found for endpoint e"),
        ({"TargetVariant": "not_a_name"}, "at 'targetVariant' failed"),
        ({"EndpointName": "not_a_name"}, "not /endpoints/not_a_name/invocations"),
    ],
)
def test_unsupported_requests_are_rejected(endpoint, fields, words):
    error = failure(endpoint, **fields)["Error"]
    assert error["Code"] == "ValidationError"
    assert words in error["Message"]


def test_other_runtime_operations_are_rejected(endpoint):
    with pytest.raises(ClientError, match="InvokeEndpointAsync"):
        endpoint.runtime.invoke_endpoint_async(EndpointName="e", InputLocation="s3://b/k")
