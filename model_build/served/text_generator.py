"""Prompts to completions, in Triton's Python backend, with the inputs of Triton's vLLM backend.

The model is decoupled: with `stream`, a request gets a response per piece of text; without, it gets one.
generation.py next to this file computes. Requests run in threads: none waits for another's last token.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils
from generation import Generator, Options, Piece, RequestError, Sampling, read_sampling
from tokenizers import Tokenizer

MOST_AT_ONCE = 16
"""Requests that compute at once; more wait."""
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class Task(NamedTuple):
    """One request."""

    prompt: list[int]
    prefix: str
    """Text before the completion; empty if an encoder reads the prompt."""
    streams: bool
    sampling: Sampling


class TritonPythonModel:
    """The interface of Triton's Python backend."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the tokenizer and the graph next to this file."""
        folder = Path(args["model_repository"]) / args["model_version"]
        config = json.loads(args["model_config"])
        instances = sum(group["count"] for group in config["instance_group"])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = max(1, len(os.sched_getaffinity(0)) // instances)
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.generator = Generator.load(
            folder,
            Tokenizer.from_file(str(folder / "tokenizer.json")),
            Options.read((folder / "generation.json").read_text(encoding="utf-8")),
            options,
        )
        self.threads = ThreadPoolExecutor(MOST_AT_ONCE)

    def execute(self, requests: Sequence[Any]) -> None:
        """Begin to answer requests; an invalid request does not affect the others."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                task = self.read(request)
            except RequestError as error:
                sender.send(failure(str(error), invalid=True), flags=FINAL)
            except Exception as error:  # the other requests must get their answers
                sender.send(failure(f"{type(error).__name__}: {error}"), flags=FINAL)
            else:
                self.threads.submit(self.answer, task, sender)

    def finalize(self) -> None:
        """Wait for the last answers."""
        self.threads.shutdown()

    def read(self, request: Any) -> Task:
        """Read a request completely: its tensors are valid only here."""
        text = decoded(request, "text_input")
        if text is None:
            raise RequestError("text_input is missing")
        given = json.loads(request.parameters() or "{}")
        further = decoded(request, "sampling_parameters")
        if further is not None:
            given |= read_object(further)
        continues = self.generator.options.start_token is None
        return Task(
            prompt=self.generator.tokens_of(text),
            prefix=text if continues and not flag(request, "exclude_input_in_output") else "",
            streams=flag(request, "stream"),
            sampling=read_sampling(given, self.generator.options),
        )

    def answer(self, task: Task, sender: Any) -> None:
        """Send the responses of one request; stop if the caller has left."""
        try:
            text = task.prefix
            for piece in self.generator.write(task.prompt, task.sampling):
                if sender.is_cancelled():
                    break
                text += piece.text
                if task.streams or piece.finish_reason:
                    sender.send(response(piece._replace(text=text)))
                    text = ""
        except Exception as error:  # whatever fails, the caller must get a response
            sender.send(failure(f"{type(error).__name__}: {error}"))
        finally:
            sender.send(flags=FINAL)


def response(piece: Piece) -> Any:
    """Return the response for a piece of text."""
    values = {
        "text_output": np.array([piece.text.encode()], dtype=np.object_),
        "finish_reason": np.array([piece.finish_reason.encode()], dtype=np.object_),
        "num_output_tokens": np.array([piece.tokens], dtype=np.uint32),
    }
    return pb_utils.InferenceResponse([pb_utils.Tensor(*pair) for pair in values.items()])


def failure(message: str, *, invalid: bool = False) -> Any:
    """Return the response of a request that failed, or is `invalid`."""
    codes = pb_utils.TritonError  # exists once the model is loaded
    return pb_utils.InferenceResponse(error=codes(message, codes.INVALID_ARG if invalid else codes.INTERNAL))


def decoded(request: Any, name: str) -> str | None:
    """Return a text input; None if the request has none."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    if tensor is None:
        return None
    values = tensor.as_numpy().reshape(-1)
    if len(values) != 1:
        raise RequestError(f"{name}: expected 1 text, got {len(values)}")
    try:
        return str(values[0].decode("utf-8"))
    except UnicodeDecodeError as error:
        raise RequestError(f"{name} is not UTF-8: {error}") from None


def flag(request: Any, name: str) -> bool:
    """Return a flag of a request; false if the request has none."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return tensor is not None and bool(tensor.as_numpy().reshape(-1)[0])


def read_object(text: str) -> dict[str, Any]:
    """Return the JSON object in `sampling_parameters`."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise RequestError(f"sampling_parameters: invalid JSON ({error})") from None
    if not isinstance(found, dict):
        raise RequestError(f"sampling_parameters: expected a JSON object, got {text!r}")
    return found
