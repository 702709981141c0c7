"""The client on each of its transports, with a scripted HTTP server: addressing, answers, every failure."""

import asyncio
import json
import time
from dataclasses import dataclass

import boto3
import botocore.session
import numpy as np
import pytest
from botocore.config import Config

from tests.client.light.wire import reply
from tritonstack import client as endpoint_client
from tritonstack.client import EndpointClient, errors
from tritonstack.client.codec import content_type_for
from tritonstack.client.failures import ERRORS_BY_CODE
from tritonstack.client.light import LightRuntime

SESSION = boto3.Session("AKIASECRETKEYID", "verysecret", region_name="eu-west-1")


@dataclass(frozen=True)
class Transport:
    """A runtime, called from a thread or from asyncio."""

    light: bool = False
    in_asyncio: bool = False

    def client(self, url, *, endpoint_name="ep", **addressing):
        config = Config(retries={"total_max_attempts": 1}, read_timeout=0.5)
        options = {"endpoint_url": url, "config": config}
        runtime = (
            LightRuntime(session=SESSION, **options)
            if self.light
            else SESSION.client("sagemaker-runtime", **options)
        )
        return EndpointClient(endpoint_name=endpoint_name, runtime=runtime, **addressing)

    def infer(self, client, inputs=None):
        inputs = {"x": np.array([1], np.float32)} if inputs is None else inputs
        return asyncio.run(client.ainfer(inputs)) if self.in_asyncio else client.infer(inputs)

    def failure(self, client, kind=errors.EndpointClientError):
        with pytest.raises(kind) as caught:
            self.infer(client, {"x": ["private sentence"]})
        return caught.value


@pytest.fixture(
    params=[(False, False), (False, True), (True, False), (True, True)],
    ids=["boto3", "boto3-asyncio", "light", "light-asyncio"],
)
def transport(request):
    return Transport(*request.param)


def good_reply(**headers):
    outputs = [{"name": "y", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 8}}]
    header = json.dumps({"outputs": outputs}).encode()
    payload = np.array([1, 2], np.float32).tobytes()
    return reply(header + payload, content_type=content_type_for(len(header)), **headers)


def error_reply(code, status, message="words", **fields):
    body = json.dumps({"Message": message, **fields}).encode()
    return reply(body, status=status, x_amzn_ErrorType=code)


def test_a_request_is_addressed_and_answered(transport, serve):
    server = serve(lambda request: good_reply())
    address = {"target_model": "a/b.tar.gz", "target_variant": "blue", "inference_component": "part"}
    assert transport.infer(transport.client(server.url, **address))["y"].tolist() == [1, 2]
    (request,) = server.requests
    assert request.target == "/endpoints/ep/invocations"
    assert request.headers["x-amzn-sagemaker-target-model"] == "a/b.tar.gz"
    assert request.headers["x-amzn-sagemaker-target-variant"] == "blue"
    assert request.headers["x-amzn-sagemaker-inference-component"] == "part"
    assert request.headers["content-type"].startswith(content_type_for(0)[:-1])


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("ValidationError", 400, errors.RequestRejectedError),
        ("ModelNotReadyException", 429, errors.ModelNotReadyError),
        ("ThrottlingException", 400, errors.ThrottledError),
        ("ServiceUnavailable", 503, errors.ServiceUnavailableError),
        ("InternalFailure", 500, errors.ServiceFailedError),
        ("AccessDeniedException", 403, errors.AccessDeniedError),
        ("SomethingNew", 403, errors.AccessDeniedError),
        ("SomethingNew", 429, errors.ThrottledError),
        ("SomethingNew", 504, errors.ServiceFailedError),
        ("SomethingNew", 418, errors.RequestRejectedError),
    ],
)
def test_each_code_has_its_error(serve, code, status, error):
    transport = Transport()
    failure = transport.failure(transport.client(serve(lambda request: error_reply(code, status)).url))
    assert type(failure) is error
    assert (failure.service.code, failure.service.status) == (code, status)
    assert "endpoint ep" in str(failure)
    assert "words" in str(failure)


@pytest.mark.parametrize(
    ("original", "target_model", "error"),
    [
        (500, None, errors.ModelFailedError),
        (400, None, errors.ModelRequestError),
        (400, "m.tar.gz", errors.MultiModelError),
        (404, "m.tar.gz", errors.ModelRequestError),
        (507, "m.tar.gz", errors.ModelOutOfMemoryError),
        (0, None, errors.ModelTimeoutError),
        (None, None, errors.ModelError),
    ],
)
def test_the_containers_status_distinguishes_model_errors(serve, original, target_model, error):
    facts = {} if original is None else {"OriginalStatusCode": original}
    answer = error_reply("ModelError", 424, "Received", OriginalMessage="container 17", **facts)
    transport = Transport()
    client = transport.client(serve(lambda request: answer).url, target_model=target_model)
    failure = transport.failure(client, errors.ModelError)
    assert type(failure) is error
    assert failure.service.original_status == original
    assert failure.request.target_model == target_model
    assert "container 17" in str(failure)


@pytest.mark.parametrize(
    ("message", "target_model", "error", "remedy"),
    [
        ("Endpoint ep of account 123456789012 not found.", None, errors.EndpointNotFoundError, "check "),
        (
            "Request r: missing target model header",
            None,
            errors.RequestRejectedError,
            "pass target_model",
        ),
        ("unsupported target model header", "m.tar.gz", errors.RequestRejectedError, "omit target_model"),
    ],
    ids=["endpoint", "missing", "extra"],
)
def test_a_wrong_address_has_its_error_and_remedy(serve, message, target_model, error, remedy):
    transport = Transport()
    server = serve(lambda request: error_reply("ValidationError", 400, message))
    failure = transport.failure(transport.client(server.url, target_model=target_model))
    assert type(failure) is error
    assert failure.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda request: error_reply("InternalFailure", 500), errors.ServiceFailedError),
        (lambda request: time.sleep(1) or good_reply(), errors.InvocationTimeoutError),
        (lambda request: good_reply(Content_Length="100000"), errors.ConnectionFailedError),
        (lambda request: good_reply().replace(b"Content-Type", b"X-Type"), errors.MalformedReplyError),
        (None, errors.ConnectionFailedError),
    ],
    ids=["failure", "silence", "truncated", "no-content-type", "no-server"],
)
def test_failures_of_each_transport_contain_no_body_and_no_secret(transport, serve, answer, error):
    url = serve(answer, close_after_reply=True).url if answer else "http://127.0.0.1:1"
    client = transport.client(url)
    failure = transport.failure(client)
    assert type(failure) is error
    text = f"{failure} {vars(failure)} {client!r}"
    assert "private" not in text
    assert "secret" not in text.lower()


def test_a_name_that_botocore_rejects(transport, serve):
    failure = transport.failure(transport.client(serve().url, endpoint_name=5), errors.RequestRejectedError)
    assert "EndpointName" in failure.message


def test_missing_region_of_the_default_transport_is_reported(monkeypatch, tmp_path):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    with pytest.raises(errors.InvocationError, match=r"endpoint ep: .* region"):
        EndpointClient(endpoint_name="ep")


def test_every_error_of_the_service_model_is_mapped():
    operation = botocore.session.get_session().get_service_model("sagemaker-runtime")
    modelled = {shape.name for shape in operation.operation_model("InvokeEndpoint").error_shapes}
    assert modelled
    assert modelled <= ERRORS_BY_CODE.keys()


def test_every_error_is_exported_and_drawn_in_the_tree():
    classes = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.EndpointClientError)
    ]
    assert set(classes) <= set(endpoint_client.__all__)
    assert [name for name in classes if name not in errors.__doc__] == []
