"""Texts to the outputs of a graph, in Triton's Python backend: the tokenizer and ONNX Runtime in one model.

The texts of all requests that Triton passes at once are sorted by length and run in small batches, so that
almost no padding is computed. tokenizer.json next to this file defines truncation and padding.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# The tokenizer starts threads for a batch, and prints a warning in processes that fork unless this is set.
os.environ["TOKENIZERS_PARALLELISM"] = "true"

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils
from tokenizers import Encoding, Tokenizer

TOKENS_PER_THREAD = 128
"""Size of a small batch, with padding. Larger ones are no faster per token, and exceed a core's caches."""


class TritonPythonModel:
    """The interface of Triton's Python backend."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the tokenizer and the graph next to this file."""
        folder = Path(args["model_repository"]) / args["model_version"]
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.padding = padding_of(self.tokenizer)
        self.tokenizer.no_padding()
        config = json.loads(args["model_config"])
        threads = threads_per_instance(sum(group["count"] for group in config["instance_group"]))
        self.most_tokens = TOKENS_PER_THREAD * threads
        self.session = load_graph(folder / "model.onnx", threads)
        self.inputs = [tensor.name for tensor in self.session.get_inputs()]
        self.outputs = [tensor["name"] for tensor in config["output"]]

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Return one response per request; an invalid request does not affect the others."""
        encoded = self.encode([read_texts(request) for request in requests])
        rows = [row for found in encoded if not isinstance(found, str) for row in found]
        answers = self.answer(rows) if rows else []
        responses, begin = [], 0
        for found in encoded:
            if isinstance(found, str):
                responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(found)))
                continue
            end = begin + len(found)
            tensors = [pb_utils.Tensor(name, array[begin:end]) for name, array in answers]
            responses.append(pb_utils.InferenceResponse(tensors))
            begin = end
        return responses

    def encode(self, readings: Sequence[list[str] | str]) -> list[list[Encoding] | str]:
        """Return the tokens of each request's texts, or why it has none."""
        texts = [text for reading in readings if not isinstance(reading, str) for text in reading]
        try:
            found = iter(self.tokenizer.encode_batch_fast(texts))
        except Exception as error:  # the library raises nothing narrower
            if len(readings) == 1:
                return [f"TEXT cannot be split into tokens: {error}"]
            return [self.encode([reading])[0] for reading in readings]
        return [
            reading if isinstance(reading, str) else [next(found) for _ in reading] for reading in readings
        ]

    def answer(self, rows: Sequence[Encoding]) -> list[tuple[str, np.ndarray]]:
        """Return the graph's outputs, with one row per text."""
        arrays: dict[str, np.ndarray] = {}
        for places in small_batches([len(row) for row in rows], self.most_tokens):
            found = self.session.run(self.outputs, self.tensors([rows[place] for place in places]))
            for name, array in zip(self.outputs, found, strict=True):
                if name not in arrays:
                    arrays[name] = np.empty((len(rows), *array.shape[1:]), array.dtype)
                arrays[name][places] = array
        return list(arrays.items())

    def tensors(self, rows: Sequence[Encoding]) -> dict[str, np.ndarray]:
        """Return the graph's inputs, padded to the longest row."""
        length = max(1, *(len(row) for row in rows))
        for row in rows:
            row.pad(length, **self.padding)
        columns = {
            "input_ids": lambda row: row.ids,
            "attention_mask": lambda row: row.attention_mask,
            "token_type_ids": lambda row: row.type_ids,
        }
        return {name: np.array([columns[name](row) for row in rows], dtype=np.int64) for name in self.inputs}


def small_batches(lengths: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Yield the places of each batch: similar lengths, and at most `most_tokens` unless it is one text."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and lengths[place] * (len(batch) + 1) > most_tokens:
            yield batch
            batch = []
        batch.append(place)
    yield batch


def padding_of(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the arguments of Encoding.pad that tokenizer.json asks for."""
    padding = tokenizer.padding or {}
    return {name: padding[name] for name in ("direction", "pad_id", "pad_type_id", "pad_token")}


def threads_per_instance(instances: int) -> int:
    """Return the threads of this instance: as the endpoint sets them, but at most its share of the cores."""
    share = max(1, len(os.sched_getaffinity(0)) // instances)
    return min(share, int(os.environ.get("OMP_NUM_THREADS") or share))


def load_graph(file: Path, threads: int) -> onnxruntime.InferenceSession:
    """Load the graph; its threads do not spin, because other instances compute meanwhile."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def read_texts(request: Any) -> list[str] | str:
    """Return the texts of a request, or why they cannot be read."""
    raw = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().reshape(-1)
    try:
        return [text.decode("utf-8") for text in raw]
    except UnicodeDecodeError as error:
        return f"TEXT is not UTF-8: {error}"
