"""Drivers for servers that the tests did not start: an address, or a SageMaker endpoint."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.contract.drivers.local import connecting_to
from tests.contract.drivers.servers import (
    STANDARD,
    Ability,
    Lay,
    Model,
    MultiModel,
    ServedModel,
    Server,
    Way,
    at_invocations,
)
from tritonstack.runtime import TritonRequestError, TritonResponse
from tritonstack.runtime.connections import ConnectionPool

MODES = {
    "single": (Way.SINGLE,),
    "ensemble": (Way.ENSEMBLE,),
    "multi-model": (Way.MULTI_MODEL, Way.ENSEMBLE_IN_MULTI_MODEL),
}


class AddressDriver:
    """Invoke a running container-level server, and write into its model folder if that is shared."""

    def __init__(
        self, url: str, *, model_root: Path | None, mode: str, release: tuple[int, int] | None
    ) -> None:
        self.ways = MODES[mode]
        self.release = release
        self._server = AddressServer(url, model_root)
        self._many = MultiModel(self._server)

    def lacks(self, ability: Ability) -> str | None:
        if ability is Ability.STARTING:
            return "the server at --server is the only one there is"
        if ability is Ability.LAYING_MODELS and self._server.models is None:
            return "the server's model folder is out of reach: give --model-root"
        return None

    def start(self, lay: Lay, environment: Mapping[str, str]) -> Server:
        del lay, environment
        pytest.skip(self.lacks(Ability.STARTING) or "")

    def served_model(self, way: Way, model: Model) -> ServedModel:
        if way.many:
            return self._many.ensure(model.name, model)
        if model is not STANDARD[way]:
            pytest.skip(f"the server at --server has no model {model.name}")
        return at_invocations(self._server, way, model)

    def multi_model(self) -> MultiModel:
        if not any(way.many for way in self.ways):
            pytest.skip("the server at --server has one model: give --mode multi-model if it takes many")
        return self._many

    def close(self) -> None:
        self._server.stop()


class AddressServer:
    """A server at an address. The tests never stop it."""

    def __init__(self, url: str, model_root: Path | None) -> None:
        address = urlsplit(url)
        self.models = model_root
        self.seen_at = "/opt/ml/models"
        self._connect = connecting_to(address.hostname or "127.0.0.1", address.port or 8080)
        self._pool = ConnectionPool(connect=self._connect)
        self.request = self._pool.request

    def connect(self) -> socket.socket:
        return self._connect()

    @property
    def running(self) -> bool:
        try:
            self._connect().close()
        except TritonRequestError:
            return False
        return True

    def log(self) -> str:
        pytest.skip("the log of the server at --server is out of reach")

    def stop(self) -> None:
        self._pool.close()


class EndpointDriver:
    """Invoke a SageMaker endpoint through InvokeEndpoint; status codes are those it passes on."""

    def __init__(
        self, name: str, *, endpoint_url: str | None, mode: str, release: tuple[int, int] | None
    ) -> None:
        self.ways = MODES[mode]
        self.release = release
        self._name = name
        config = Config(retries={"total_max_attempts": 1}, read_timeout=70)
        self._runtime: Any = boto3.client("sagemaker-runtime", endpoint_url=endpoint_url, config=config)

    def lacks(self, ability: Ability) -> str | None:
        return f"an endpoint is asked through InvokeEndpoint alone, which rules out {ability.value}"

    def start(self, lay: Lay, environment: Mapping[str, str]) -> Server:
        del lay, environment
        pytest.skip(self.lacks(Ability.STARTING) or "")

    def served_model(self, way: Way, model: Model) -> ServedModel:
        if model is not STANDARD[way]:
            pytest.skip(f"the endpoint at --endpoint does not serve the model {model.name}")
        target = {"TargetModel": model.target} if way.many else {}

        def send(body: bytes, headers: Mapping[str, str]) -> TritonResponse:
            return self._invoke(body, headers, target)

        return ServedModel(way, model, send, None)

    def multi_model(self) -> MultiModel:
        pytest.skip(self.lacks(Ability.ASKING_ANYTHING) or "")

    def close(self) -> None:
        self._runtime.close()

    def _invoke(self, body: bytes, headers: Mapping[str, str], target: Mapping[str, str]) -> TritonResponse:
        if set(headers) - {"Content-Type"}:
            pytest.skip("InvokeEndpoint carries no headers of the caller's own")
        kind = {"ContentType": headers["Content-Type"]} if "Content-Type" in headers else {}
        try:
            answer = self._runtime.invoke_endpoint(EndpointName=self._name, Body=body, **kind, **target)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ModelError":
                raise
            return TritonResponse(
                status=error.response["OriginalStatusCode"],
                headers={},
                body=error.response["OriginalMessage"].encode(),
            )
        return TritonResponse(
            status=200, headers={"content-type": answer["ContentType"]}, body=answer["Body"].read()
        )
