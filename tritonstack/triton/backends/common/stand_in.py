"""Shared code of the stand-ins for Triton's backends: batching, parameters, and errors.

The installer copies this file beside each backend's model.py, where the Python backend finds it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils

Array = npt.NDArray[Any]
Number = TypeVar("Number", int, float)
Feed = Mapping[str, Array]
BOOLEANS = {"true": True, "false": False}


class CallableModel:
    """Answers requests with a function from named arrays to named arrays."""

    def __init__(
        self,
        config: Mapping[str, Any],
        run: Callable[[dict[str, Array], list[str]], Mapping[str, Array]],
        *,
        errors: tuple[type[Exception], ...],
        error_prefix: str,
    ) -> None:
        """`run` receives the inputs and the names of the requested outputs.

        Exceptions of the types in `errors` become the response of the request that caused them.
        """
        self._batches = config["max_batch_size"] > 0
        self._outputs = [output["name"] for output in config["output"]]
        self._texts = {entry["name"] for entry in config["input"] if entry["data_type"] == "TYPE_STRING"}
        self._run_arrays = run
        self._errors = errors
        self._error_prefix = error_prefix

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer the requests; those with equal shapes share one run."""
        responses: list[Any] = [None] * len(requests)
        for members in self._group(requests):
            for index, response in zip(members, self._answer([requests[i] for i in members]), strict=True):
                responses[index] = response
        return responses

    def _group(self, requests: Sequence[Any]) -> Iterable[list[int]]:
        """Group requests whose inputs are equal except for the batch dimension."""
        if not self._batches or len(requests) == 1:
            return [[index] for index in range(len(requests))]
        groups: dict[tuple[Any, ...], list[int]] = {}
        for index, request in enumerate(requests):
            shapes = ((tensor.name(), tuple(tensor.shape()[1:])) for tensor in request.inputs())
            groups.setdefault(tuple(sorted(shapes)), []).append(index)
        return groups.values()

    def _answer(self, requests: Sequence[Any]) -> list[Any]:
        """Answer requests in one run; if it fails, run each one alone, so that only bad requests fail."""
        try:
            return self._run(requests)
        except self._errors as error:
            if len(requests) > 1:
                return [self._answer([request])[0] for request in requests]
            message = f"{self._error_prefix}: {error}"
            return [pb_utils.InferenceResponse(error=pb_utils.TritonError(message))]

    def _run(self, requests: Sequence[Any]) -> list[Any]:
        asked = [set(request.requested_output_names()) for request in requests]
        wanted = [name for name in self._outputs if any(name in names for names in asked)]
        feeds = [self._read(request) for request in requests]
        results = self._run_arrays(feeds[0] if len(feeds) == 1 else _concatenate(feeds), wanted)
        if len(requests) == 1:
            return [_respond(results, asked[0])]
        sizes = [len(next(iter(part.values()))) for part in feeds]
        split = {name: _split(name, result, sizes) for name, result in results.items()}
        return [
            _respond({name: parts[index] for name, parts in split.items()}, names)
            for index, names in enumerate(asked)
        ]

    def _read(self, request: Any) -> dict[str, Array]:
        """Return the inputs as views of Triton's memory; only text is copied, to decode it."""
        return {
            tensor.name(): _decode(tensor.as_numpy()) if tensor.name() in self._texts else tensor.as_numpy()
            for tensor in request.inputs()
        }


def _decode(array: Array) -> Array:
    texts = np.empty(array.size, dtype=np.object_)
    texts[:] = [item.decode() if isinstance(item, bytes) else item for item in array.flat]
    return texts.reshape(array.shape)


def _concatenate(feeds: Sequence[Feed]) -> dict[str, Array]:
    return {name: np.concatenate([feed[name] for feed in feeds]) for name in feeds[0]}


def _split(name: str, result: Array, sizes: Sequence[int]) -> list[Array]:
    """Return each request's rows as views."""
    if result.ndim == 0 or len(result) != sum(sizes):
        raise ValueError(f"output '{name}' has shape {list(result.shape)} for a batch of {sum(sizes)}")
    return np.split(result, np.cumsum(sizes[:-1]))


def _respond(results: Feed, asked: set[str]) -> Any:
    return pb_utils.InferenceResponse(
        [pb_utils.Tensor(name, array) for name, array in results.items() if name in asked]
    )


def count_instances(config: Mapping[str, Any]) -> int:
    """Return the number of instances of a model, each of which is a process here."""
    return max(1, sum(int(group["count"]) for group in config.get("instance_group", ())))


def openmp_threads(config: Mapping[str, Any]) -> int | None:
    """Return the threads of one instance as OMP_NUM_THREADS limits them; None without a limit.

    This machine may have fewer cores than the endpoint's instance type: its instances share what there is.
    """
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if not limit.isdecimal():
        return None
    share = len(os.sched_getaffinity(0)) // count_instances(config)
    return max(1, min(int(limit), share))


def configuration_error(config: Mapping[str, Any], reason: str) -> Exception:
    """Return the exception that prevents a model from loading."""
    error: Exception = pb_utils.TritonModelException(f"unable to load model '{config['name']}': {reason}")
    return error


def warn_of_cpu(args: Mapping[str, str]) -> None:
    """Log that a model configured for a GPU runs on the CPU."""
    if args["model_instance_kind"] == "GPU":
        pb_utils.Logger.log_warn(f"{args['model_instance_name']} runs on the CPU: no GPU is available")


def reject_unsupported(config: Mapping[str, Any], *, of: str) -> None:
    """Reject options that no stand-in supports. `of` is the name of the original backend."""
    accelerators = config.get("optimization", {}).get("execution_accelerators", {})
    unsupported = {
        "an execution accelerator": accelerators.get("cpu_execution_accelerator"),
        "batch_input": config.get("batch_input"),
        "batch_output": config.get("batch_output"),
        "sequence_batching.state": config.get("sequence_batching", {}).get("state"),
        "allow_ragged_batch": any(entry.get("allow_ragged_batch") for entry in config["input"]),
        "an optional input beside batching": config["max_batch_size"]
        and any(entry.get("optional") for entry in config["input"]),
    }
    for name, asked in unsupported.items():
        if asked:
            raise configuration_error(config, f"{name} is not supported by this server's stand-in for {of}")


def control_inputs(config: Mapping[str, Any]) -> list[str]:
    """Return the inputs that the sequence batcher adds."""
    return [entry["name"] for entry in config.get("sequence_batching", {}).get("control_input", [])]


def read_text(config: Mapping[str, Any], name: str) -> str | None:
    """Return a parameter of the model; None if it is not set."""
    entry = config["parameters"].get(name)
    return None if entry is None else str(entry["string_value"])


def read_number(config: Mapping[str, Any], name: str, default: Number) -> Number:
    """Return a parameter as a number of its default's type."""
    text = read_text(config, name)
    if text is None:
        return default
    try:
        return type(default)(text)
    except ValueError:
        kind = "whole number" if isinstance(default, int) else "number"
        raise configuration_error(config, f"parameter {name} is '{text}', which is no {kind}") from None


def read_bool(config: Mapping[str, Any], name: str, default: bool | None) -> bool | None:
    """Return a boolean parameter."""
    text = read_text(config, name)
    if text is None:
        return default
    if text.lower() not in BOOLEANS:
        raise configuration_error(config, f"parameter {name} is '{text}', and has to be true or false")
    return BOOLEANS[text.lower()]
