"""Compute the expected answers of an ensemble by calling its models' own artifacts in order.

Each verified artifact is served alone by the real server, and its tensors are passed on outside Triton. An
ensemble with the same answers is composed correctly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from model_build.data.cases import Case
from model_build.errors import ServingError
from model_build.recipes.pipeline import Pipeline
from model_build.repository.flattening import MemberFolder
from tritonstack.client import decode_reply, encode_request
from tritonstack.triton import TritonInstallation, TritonServer

Array = NDArray[Any]
READY_WITHIN_S = 300.0
REQUEST_WITHIN_S = 120.0


def chain_answers(
    pipeline: Pipeline,
    members: Mapping[str, MemberFolder],
    requests: Sequence[tuple[str, Mapping[str, Array]]],
    *,
    installation: TritonInstallation,
    work: Path,
) -> list[Case]:
    """Return the requests as cases, with the models' chained answers."""
    tensors = [dict(inputs) for _, inputs in requests]
    for index, step in enumerate(pipeline.steps):
        member = members[step.model]
        with TritonServer.start(
            installation=installation,
            model_root=member.folder,
            environment={
                "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
                "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": member.entry,
            },
            state_dir=work / f"step-{index + 1}",
        ) as server:
            server.wait_ready(timeout_s=READY_WITHIN_S)
            for values in tensors:
                answers = _ask(
                    server, step.model, {input_name: values[name] for input_name, name in step.inputs.items()}
                )
                values.update({name: answers[input_name] for input_name, name in step.outputs.items()})
    return [
        Case(name, inputs, {tensor.name: values[tensor.name] for tensor in pipeline.outputs}, origin="served")
        for (name, inputs), values in zip(requests, tensors, strict=True)
    ]


def _ask(server: TritonServer, model: str, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    request = encode_request(inputs)
    reply = server.request(
        "POST",
        "/invocations",
        body=request.body,
        headers={"Content-Type": request.content_type},
        timeout_s=REQUEST_WITHIN_S,
    )
    if reply.status != 200:
        raise ServingError(
            f"{model!r} returned status {reply.status} for the output of earlier steps: "
            f"{reply.body.decode(errors='replace')[:500]}",
            remedy=f"make the inputs of {model!r} match the outputs of the steps before it",
        )
    return decode_reply(reply.body, content_type=reply.headers["content-type"]).outputs
