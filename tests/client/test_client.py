"""The client on each of its transports, with a scripted HTTP server: addressing, answers, every failure."""

import asyncio
import json
import socket
import threading
from dataclasses import dataclass, field

import boto3
import botocore.session
import numpy as np
import pytest
from botocore.config import Config
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from tritonstack import client as endpoint_client
from tritonstack.client import EndpointClient, errors
from tritonstack.client.codec import content_type_for
from tritonstack.client.failures import ERRORS_BY_CODE
from tritonstack.client.light import LightRuntime

SESSION = boto3.Session("AKIASECRETKEYID", "verysecret", region_name="eu-west-1")


@dataclass
class ScriptedServer:
    """Answer every request with `answer`, and record requests."""

    answer: Response = field(default_factory=Response)
    delay: threading.Event | None = None
    seen: list[Request] = field(default_factory=list)

    def __call__(self, environ, start_response):
        request = Request(environ)
        request.get_data()
        self.seen.append(request)
        if self.delay is not None:
            self.delay.wait(10)
        return self.answer(environ, start_response)


@pytest.fixture
def server():
    scripted = ScriptedServer()
    http = make_server("127.0.0.1", 0, scripted, threaded=True)
    thread = threading.Thread(target=http.serve_forever, args=(0.02,))
    thread.start()
    scripted.url = f"http://127.0.0.1:{http.port}"
    yield scripted
    if scripted.delay is not None:
        scripted.delay.set()
    http.shutdown()
    thread.join()
    http.server_close()


@dataclass(frozen=True)
class Transport:
    """A runtime, called from a thread or from asyncio."""

    light: bool
    in_asyncio: bool

    def client(self, url, *, endpoint_name="ep", config=None, **addressing):
        options = {
            "endpoint_url": url,
            "config": Config(retries={"total_max_attempts": 1}, **(config or {})),
        }
        runtime = (
            LightRuntime(session=SESSION, **options)
            if self.light
            else SESSION.client("sagemaker-runtime", **options)
        )
        return EndpointClient(endpoint_name=endpoint_name, runtime=runtime, **addressing)

    def infer(self, client, inputs=None):
        inputs = {"x": np.array([1], np.float32)} if inputs is None else inputs
        return asyncio.run(client.ainfer(inputs)) if self.in_asyncio else client.infer(inputs)


@pytest.fixture(
    params=[(False, False), (False, True), (True, False), (True, True)],
    ids=["boto3", "boto3-asyncio", "light", "light-asyncio"],
)
def transport(request):
    light, in_asyncio = request.param
    return Transport(light, in_asyncio)


def good_answer():
    outputs = [
        {"name": "y", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 8}},
    ]
    header = json.dumps({"model_name": "m", "model_version": "1", "outputs": outputs}).encode()
    payload = np.array([1, 2], np.float32).tobytes()
    return Response(header + payload, content_type=content_type_for(len(header)))


def error_answer(code, status, message="words", **fields):
    return Response(
        json.dumps({"Message": message, **fields}),
        status=status,
        content_type="application/json",
        headers={"x-amzn-ErrorType": code},
    )


def test_a_request_is_addressed_and_answered(transport, server):
    server.answer = good_answer()
    result = transport.infer(
        transport.client(
            server.url, target_model="a/b.tar.gz", target_variant="blue", inference_component="part"
        )
    )
    assert result["y"].tolist() == [1, 2]
    request = server.seen[0]
    assert request.path == "/endpoints/ep/invocations"
    assert request.headers["X-Amzn-SageMaker-Target-Model"] == "a/b.tar.gz"
    assert request.headers["X-Amzn-SageMaker-Target-Variant"] == "blue"
    assert request.headers["X-Amzn-SageMaker-Inference-Component"] == "part"
    assert request.content_type.startswith("application/vnd.sagemaker-triton.binary+json;json-header-size=")


def test_asyncio_requests_run_concurrently(transport, server):
    server.answer = good_answer()
    client = transport.client(server.url)

    async def many():
        return await asyncio.gather(*(client.ainfer({"x": np.array([1.0])}) for _ in range(4)))

    assert [reply["y"].tolist() for reply in asyncio.run(many())] == [[1, 2]] * 4


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("ValidationError", 400, errors.RequestRejectedError),
        ("ModelNotReadyException", 429, errors.ModelNotReadyError),
        ("ThrottlingException", 400, errors.ThrottledError),
        ("ServiceUnavailable", 503, errors.ServiceUnavailableError),
        ("InternalFailure", 500, errors.ServiceFailedError),
        ("InternalDependencyException", 530, errors.ServiceFailedError),
        ("AccessDeniedException", 403, errors.AccessDeniedError),
        ("SomethingNew", 403, errors.AccessDeniedError),
        ("SomethingNew", 429, errors.ThrottledError),
        ("SomethingNew", 503, errors.ServiceUnavailableError),
        ("SomethingNew", 504, errors.ServiceFailedError),
        ("SomethingNew", 418, errors.RequestRejectedError),
    ],
)
def test_each_code_has_its_error(transport, server, code, status, error):
    server.answer = error_answer(code, status)
    with pytest.raises(errors.InvocationError) as caught:
        transport.infer(transport.client(server.url))
    assert type(caught.value) is error
    assert caught.value.service.code == code
    assert caught.value.service.status == status
    assert "endpoint ep" in str(caught.value)
    assert "words" in str(caught.value)


def test_a_missing_endpoint_has_its_own_error(transport, server):
    server.answer = error_answer("ValidationError", 400, "Endpoint ep of account 123456789012 not found.")
    with pytest.raises(errors.EndpointNotFoundError):
        transport.infer(transport.client(server.url))


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
def test_the_containers_status_distinguishes_model_errors(transport, server, original, target_model, error):
    facts = {} if original is None else {"OriginalStatusCode": original}
    server.answer = error_answer(
        "ModelError", 424, "Received server error", OriginalMessage="container 17", **facts
    )
    with pytest.raises(errors.ModelError) as caught:
        transport.infer(transport.client(server.url, target_model=target_model))
    assert type(caught.value) is error
    assert caught.value.service.original_status == original
    assert caught.value.request.target_model == target_model
    assert "container 17" in str(caught.value)


@pytest.mark.parametrize(
    ("message", "target_model", "remedy"),
    [
        (
            "Request r is missing a target model header: endpoint ep is a multi-model",
            None,
            "pass target_model",
        ),
        ("Endpoint ep does not support target model header.", "m.tar.gz", "omit target_model"),
    ],
)
def test_a_missing_or_extra_target_model_has_its_remedy(transport, server, message, target_model, remedy):
    server.answer = error_answer("ValidationError", 400, message)
    with pytest.raises(errors.RequestRejectedError) as caught:
        transport.infer(transport.client(server.url, target_model=target_model))
    assert caught.value.remedy.startswith(remedy)


def test_no_answer_in_time(transport, server):
    server.delay = threading.Event()
    client = transport.client(server.url, config={"read_timeout": 0.2})
    with pytest.raises(errors.InvocationTimeoutError):
        transport.infer(client)


def test_nothing_listens_on_the_port(transport):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        client = transport.client(f"http://127.0.0.1:{free.getsockname()[1]}")
        with pytest.raises(errors.ConnectionFailedError):
            transport.infer(client)


def test_truncated_answer(transport, server):
    server.answer = good_answer()
    server.answer.headers["Content-Length"] = "100000"
    with pytest.raises(errors.ConnectionFailedError):
        transport.infer(transport.client(server.url))


def test_an_answer_without_a_content_type(transport, server):
    server.answer = good_answer()
    del server.answer.headers["Content-Type"]
    with pytest.raises(errors.MalformedReplyError, match="content type ''"):
        transport.infer(transport.client(server.url))


def test_a_name_that_botocore_rejects(transport, server):
    client = transport.client(server.url, endpoint_name=5)
    with pytest.raises(errors.RequestRejectedError, match="EndpointName"):
        transport.infer(client)


def test_missing_region_of_the_default_transport_is_reported(monkeypatch, tmp_path):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    with pytest.raises(errors.InvocationError, match=r"endpoint ep: .* region"):
        EndpointClient(endpoint_name="ep")


def test_errors_contain_no_body_and_no_secret(transport, server):
    server.answer = error_answer("InternalFailure", 500)
    client = transport.client(server.url)
    with pytest.raises(errors.InvocationError) as caught:
        transport.infer(client, {"x": ["private sentence"]})
    text = f"{caught.value} {vars(caught.value)} {client!r}"
    assert "private" not in text
    assert "secret" not in text.lower()


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
