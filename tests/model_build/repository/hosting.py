"""A multi-model server, invoked through SageMaker's API."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tritonstack.base.paths import find_project
from tritonstack.client import TopClasses, decode_reply, encode_request
from tritonstack.triton import TritonResponse, TritonServer, find_installation


@dataclass(frozen=True)
class Host:
    server: TritonServer

    def load(self, name: str) -> None:
        order = {"model_name": name, "url": f"{self.server.model_root}/{name}/model"}
        self._control("POST", "/models", name, json.dumps(order).encode())

    def unload(self, name: str) -> None:
        self._control("DELETE", f"/models/{name}", name)

    def _control(self, method: str, path: str, name: str, body: bytes = b"") -> None:
        headers = {"Content-Type": "application/json", **_target(name)}
        reply = self.server.request(method, path, body=body, headers=headers, timeout_s=60)
        assert reply.status == 200, self.server.log_tail()

    def post(
        self,
        name: str,
        inputs: Mapping[str, Any],
        outputs: Sequence[str | TopClasses] | None = None,
        **parameters: int | bool,
    ) -> TritonResponse:
        request = encode_request(inputs, outputs=outputs, parameters=parameters or None)
        headers = {"Content-Type": request.content_type, **_target(name)}
        path = f"/models/{name}/invoke"
        return self.server.request("POST", path, body=request.body, headers=headers, timeout_s=60)

    def ask(
        self,
        name: str,
        inputs: Mapping[str, Any],
        outputs: Sequence[str | TopClasses] | None = None,
        **parameters: int | bool,
    ) -> Mapping[str, Any]:
        reply = self.post(name, inputs, outputs, **parameters)
        assert reply.status == 200, reply.body
        return decode_reply(reply.body, content_type=reply.headers["content-type"]).outputs


def _target(name: str) -> dict[str, str]:
    return {"X-Amzn-SageMaker-Target-Model": f"{name}/model.tar.gz"}


@contextmanager
def hosting(models: Path, state: Path) -> Iterator[Host]:
    """Host the models of `models`/<name>/model; they are not loaded yet."""
    with TritonServer.start(
        installation=find_installation(home=find_project(Path(__file__)).server_dir),
        model_root=models,
        environment={
            "SAGEMAKER_MULTI_MODEL": "true",
            "SAGEMAKER_TRITON_PING_MODE": "live",
            "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
        },
        state_dir=state,
    ) as server:
        server.wait_ready(timeout_s=60)
        yield Host(server)
