"""Serve a packed decoupled model as an endpoint does, and compare every response with the expected ones.

Requests have the JSON form of Triton's generate extension, because SageMaker's front end takes no other for
decoupled models. Each test input is sent alone, then all at once, and the responses are read while they
arrive: a model that never sends its final flag is stopped by a time limit. Only single-model endpoints serve
such archives.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_build.checking.archive_check import READY_WITHIN_S, ArchiveCheck, own_threads
from model_build.checking.parity import compare
from model_build.checking.request_plan import AT_ONCE, MEASURED_REQUESTS
from model_build.checking.served_model import (
    WHOLE_LOG,
    ServingReport,
    measure,
    require_success,
    served_by,
    with_errors,
)
from model_build.data.cases import Case
from model_build.errors import ParityError, ServingError
from model_build.store.archive import unpack_own
from tritonstack.client.streaming import flat_inputs, read_responses, response_array
from tritonstack.facts.container_variables import ContainerOptions
from tritonstack.files.records.comparing import Comparison
from tritonstack.files.records.manifests import TensorSpec
from tritonstack.triton import TritonResponse, TritonServer, TritonTimeoutError

RESPONSES_WITHIN_S = 60.0
"""All responses to one request; most models send them in seconds."""
_CORRECT = f"correct the model's code; {WHOLE_LOG}"
Response = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class StreamCheck(ArchiveCheck):
    """The check of a decoupled model, whose cases have several responses each."""

    within_s: float = RESPONSES_WITHIN_S

    def run(self) -> ServingReport:
        """Serve the archive and send every case; raise ParityError or ServingError on failure."""
        root = self.work / "single"
        unpack_own(self.packed, root)
        return self.with_retry(lambda: self._serve(root))

    def _serve(self, root: Path) -> ServingReport:
        options = ContainerOptions(self.entry, threads=own_threads(root), streams=True)
        with self.start(root, "single", options) as server:
            server.wait_ready(timeout_s=READY_WITHIN_S)
            comparisons = [part for case in self.cases for part in self._compare(server, "alone", case)]
            self.judge(comparisons)
            crowd = [*self.cases, *reversed(self.cases)]
            with ThreadPoolExecutor(AT_ONCE) as pool:
                for part in pool.map(lambda case: list(self._compare(server, "at once", case)), crowd):
                    comparisons += part
            first = self.cases[0]
            latency = measure(lambda: self._ask(server, first), batch=1, requests=MEASURED_REQUESTS["one"])
            memory = server.shared_memory_held()
        return ServingReport(self.judge(comparisons), (latency,), served_by(self.installation), memory)

    def _compare(self, server: TritonServer, label: str, case: Case) -> Iterator[Comparison]:
        responses = self._ask(server, case)
        if len(responses) != len(case.responses):
            raise ParityError(
                f"{case.name} got {len(responses)} responses; expected {len(case.responses)}",
                remedy="correct the model, or the expected responses",
            )
        for number, (response, expected) in enumerate(zip(responses, case.responses, strict=True), start=1):
            if missing := sorted(expected.keys() - response.keys()):
                raise ServingError(
                    with_errors(f"response {number} to {case.name} lacks {', '.join(missing)}", server),
                    remedy="send every expected output with each response",
                )
            for name, right in expected.items():
                actual = response_array(response[name], like=right)
                yield compare(f"{label}: {case.name}, response {number}", name, actual=actual, expected=right)

    def _ask(self, server: TritonServer, case: Case) -> list[Response]:
        """Return all responses to one request; raise ServingError if one is an error, or none is final."""
        responses: list[Response] = []
        body = json.dumps(flat_inputs(case.inputs)).encode()
        try:
            reply = asyncio.run(self._read(server, body, responses))
        except TritonTimeoutError as error:
            state = f"{case.name} got {len(responses)} responses"
            raise ServingError(
                with_errors(f"{state}, and no final flag within {self.within_s:.0f} s", server),
                remedy="send flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL with the last response, or "
                "alone after it, for every request, also after an error",
            ) from error
        require_success(reply, server, f"{case.name}: the served artifact returned")
        for number, response in enumerate(responses):
            if "error" in response:
                failed = f"{case.name} failed after {number} responses: {response['error']}"
                raise ServingError(with_errors(failed, server), remedy=_CORRECT)
        if not responses:
            raise ServingError(
                f"{case.name} got the final flag without any response",
                remedy="send at least one response to every request, or an error",
            )
        return responses

    async def _read(self, server: TritonServer, body: bytes, responses: list[Response]) -> TritonResponse:
        """Add the responses to a list while they arrive; return the status, and the body of an error."""
        headers = {"Content-Type": "application/json"}
        stream = await server.stream(
            "POST", "/invocations", body=body, headers=headers, timeout_s=self.within_s
        )
        received = b""
        try:
            if stream.status != 200:
                body = await stream.whole()
                return TritonResponse(status=stream.status, headers=stream.headers, body=body)
            async for part in stream.parts():
                received += part
                whole, separator, received = received.rpartition(b"\n")
                content_type = stream.headers["content-type"]
                responses += read_responses([whole + separator], content_type=content_type)
            return TritonResponse(status=stream.status, headers=stream.headers, body=received)
        finally:
            stream.close()


def unsendable(case: Case, tensors: Sequence[TensorSpec], *, batches: bool) -> str | None:
    """Say why Triton would give an input another shape; None if flat lists describe all inputs.

    Triton fills the last variable dimension, and sets all others to 1.
    """
    dims = {tensor.name: ((-1,) if batches else ()) + tuple(tensor.shape) for tensor in tensors}
    for name, array in case.inputs.items():
        variable = [size for size, dim in zip(array.shape, dims[name], strict=True) if dim == -1]
        if any(size != 1 for size in variable[:-1]):
            return f"{name} has the shape {list(array.shape)} and the dims {list(dims[name])}"
    return None
