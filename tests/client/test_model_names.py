"""Names of models on multi-model endpoints: published in SSM or a file, cached, renewed, and suggested."""

import asyncio
import io
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
import numpy as np
import pytest
from botocore.exceptions import ClientError, NoCredentialsError

from tests.moto_aws import simulated_aws
from tritonstack.client import EndpointClient, ModelNames, errors

PATH = "/t-dev/targets/shop"
FOOD, FASHION = f"ncf-food/{'a' * 64}/model.tar.gz", f"ncf-fashion/{'b' * 64}/model.tar.gz"
NEWER = f"ncf-food/{'c' * 64}/model.tar.gz"
X = {"x": np.ones((1, 2), np.float32)}


class Endpoint:
    """Has some archives; answers with the inputs, and fails as SageMaker does for others."""

    def __init__(self, *archives: str) -> None:
        self.archives = archives
        self.asked: list[str] = []

    def invoke_endpoint(self, **call: Any) -> Mapping[str, Any]:
        self.asked.append(call["TargetModel"])
        if call["TargetModel"] not in self.archives:
            message = f"Failed to download model data(bucket: b, key: {call['TargetModel']}). Please ensure …"
            raise ClientError({"Error": {"Code": "ValidationError", "Message": message}}, "InvokeEndpoint")
        size = int(call["ContentType"].rpartition("=")[2])
        inputs = json.loads(call["Body"][:size])["inputs"]
        header = json.dumps({"outputs": inputs}).encode()
        content_type = call["ContentType"].replace(f"={size}", f"={len(header)}")
        return {"Body": io.BytesIO(header + call["Body"][size:]), "ContentType": content_type}


class AsyncEndpoint(Endpoint):
    """The same for asyncio."""

    async def ainvoke_endpoint(self, **call: Any) -> Mapping[str, Any]:
        return self.invoke_endpoint(**call)


class Published:
    """Names that a test changes, and the number of reads."""

    def __init__(self, **names: str) -> None:
        self.names = {name.replace("_", "-"): target for name, target in names.items()}
        self.reads, self.now = 0, 0.0
        self.failure: Exception | None = None

    def read(self) -> Mapping[str, str]:
        self.reads += 1
        if self.failure is not None:
            raise self.failure
        return dict(self.names)

    def model_names(self) -> ModelNames:
        return ModelNames(self.read, source=PATH, refresh_s=60, clock=lambda: self.now)


@pytest.fixture(params=["threads", "asyncio"])
def infer(request: pytest.FixtureRequest) -> Any:
    """Call `infer`, or `ainfer` on a runtime for asyncio."""
    if request.param == "threads":
        return lambda client: client.infer(X)
    return lambda client: asyncio.run(client.ainfer(X))


def client_of(endpoint: Endpoint, model: str, models: ModelNames | None) -> EndpointClient:
    return EndpointClient(endpoint_name="e", runtime=endpoint, target_model=model, models=models)


@pytest.fixture
def published() -> Published:
    return Published(ncf_food=FOOD, ncf_fashion=FASHION)


@pytest.fixture
def endpoint() -> Endpoint:
    return AsyncEndpoint(FOOD, FASHION, NEWER)


@pytest.fixture
def client(published: Published, endpoint: Endpoint) -> EndpointClient:
    return client_of(endpoint, "ncf-food", published.model_names())


def test_a_name_becomes_its_target_with_one_read_per_interval(infer, published, endpoint, client):
    for sharing in (client, client, client.with_model("ncf-fashion")):
        assert infer(sharing)["x"].tolist() == [[1.0, 1.0]]
    assert (endpoint.asked, published.reads) == ([FOOD, FOOD, FASHION], 1)
    published.names["ncf-food"] = NEWER
    for published.now in (59, 61):
        infer(client)
    assert endpoint.asked[3:] == [FOOD, NEWER]


def test_known_names_are_used_while_they_cannot_be_read(infer, published, endpoint, client):
    infer(client)
    published.failure, published.now = errors.ModelNamesError("unavailable", remedy=None), 61
    infer(client)
    infer(client)
    assert (len(endpoint.asked), published.reads) == (3, 2)


def test_a_target_that_is_gone_is_looked_up_again(infer, published, endpoint, client):
    infer(client)
    endpoint.archives = (NEWER,)
    published.names["ncf-food"], published.now = NEWER, 5
    infer(client)
    assert endpoint.asked == [FOOD, FOOD, NEWER]


def test_an_unknown_name_sends_nothing_and_suggests_another(infer, published, endpoint, client):
    for _ in range(3):
        with pytest.raises(errors.UnknownModelError) as caught:
            infer(client.with_model("ncf-fod"))
    assert "'ncf-fod'" in caught.value.message
    assert caught.value.known == ("ncf-fashion", "ncf-food")
    assert "mean 'ncf-food'?" in caught.value.remedy
    assert (endpoint.asked, published.reads) == ([], 1)


def test_a_new_name_is_found_without_waiting(infer, published, endpoint, client):
    infer(client)
    published.names["ncf-newer"], published.now = NEWER, 2
    infer(client.with_model("ncf-newer"))
    assert endpoint.asked == [FOOD, NEWER]


def test_a_wrong_target_lists_the_known_names(infer, endpoint, client):
    with pytest.raises(errors.TargetNotFoundError) as caught:
        infer(client.with_model("ncf-foo/1/model.tar.gz"))
    assert "mean 'ncf-food'?" in caught.value.remedy
    with pytest.raises(errors.TargetNotFoundError) as caught:
        infer(client_of(endpoint, "ncf-food", None))
    assert "tritonstack targets" in str(caught.value.remedy)


def test_what_the_endpoint_answered_is_reported_if_names_cannot_be_read_again(
    infer, published, endpoint, client
):
    endpoint.archives = ()
    for published.failure in (None, errors.ModelNamesError("unavailable", remedy=None)):
        with pytest.raises(errors.TargetNotFoundError):
            infer(client)
        published.now = 5
    assert endpoint.asked == [FOOD, FOOD]


@pytest.mark.parametrize("later", [False, True])
def test_threads_read_once(later):
    published = Published(ncf_food=FOOD)
    names, start = published.model_names(), threading.Barrier(8)
    if later:  # a deployment has replaced the artifact
        names.known()
        published.now, published.reads = 5, 0

    def ask() -> None:
        start.wait()
        assert (names.refresh() if later else names.known())["ncf-food"] == FOOD

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert published.reads == 1


@pytest.fixture
def ssm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    with simulated_aws():
        yield boto3.client("ssm")


def test_published_names_are_read_from_all_parameters(ssm):
    expected = {f"m{number}": f"m{number}/{'a' * 64}/model.tar.gz" for number in range(25)}
    for name, target in expected.items():
        ssm.put_parameter(Name=f"{PATH}/{name}", Value=json.dumps({name: target}), Type="String")
    ssm.put_parameter(Name=f"{PATH}-2/0", Value="{}", Type="String")
    assert ModelNames.published(PATH, ssm=ssm).known() == expected
    assert ModelNames.published(PATH).known() == expected  # boto3's default session


def test_no_parameters_are_an_error(ssm):
    with pytest.raises(errors.ModelNamesError, match="published at /t-dev") as caught:
        ModelNames.published(PATH, ssm=ssm).target("x")
    assert "ModelNames" in str(caught.value.remedy)


def test_missing_rights_are_an_error():
    class Denied:
        def get_paginator(self, _: str) -> Any:
            raise NoCredentialsError

    with pytest.raises(errors.ModelNamesError, match="credentials") as caught:
        ModelNames.published(PATH, ssm=Denied()).target("x")
    assert "ssm:GetParametersByPath" in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        (b"", "JSON object"),
        (b'{"a": 1}', "JSON object"),
        (b"\xff\xfe", "invalid start byte"),
    ],
)
def test_a_file_without_names_is_an_error(tmp_path, content, reason):
    file = tmp_path / "names.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(errors.ModelNamesError, match=reason):
        ModelNames.from_file(file).known()


def test_a_file_is_read(tmp_path, endpoint):
    file = tmp_path / "names.json"
    file.write_text(json.dumps({"ncf-food": FOOD}))
    client_of(endpoint, "ncf-food", ModelNames.from_file(file)).infer(X)
    assert endpoint.asked == [FOOD]
