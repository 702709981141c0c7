"""Stand-in for NVIDIA's ONNX Runtime backend, written in Python.

Unmodified model repositories with `backend: "onnxruntime"` or `platform: "onnxruntime_onnx"` run through this
file. It follows the original's README: model parameters, the graph optimization level, configuration
completion from the graph, and rejection of configurations that do not match the graph or are unsupported
here.

Triton's Python backend starts one process per model instance and calls the class below in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_state
from stand_in import (
    CallableModel,
    configuration_error,
    control_inputs,
    count_instances,
    read_number,
    reject_unsupported,
    warn_of_cpu,
)

Array = npt.NDArray[Any]

TRITON_TYPE = {
    "tensor(bool)": "TYPE_BOOL",
    "tensor(uint8)": "TYPE_UINT8",
    "tensor(uint16)": "TYPE_UINT16",
    "tensor(uint32)": "TYPE_UINT32",
    "tensor(uint64)": "TYPE_UINT64",
    "tensor(int8)": "TYPE_INT8",
    "tensor(int16)": "TYPE_INT16",
    "tensor(int32)": "TYPE_INT32",
    "tensor(int64)": "TYPE_INT64",
    "tensor(float16)": "TYPE_FP16",
    "tensor(float)": "TYPE_FP32",
    "tensor(double)": "TYPE_FP64",
    "tensor(string)": "TYPE_STRING",
}

# Triton's numbers for graph optimization, as the original backend maps them.
OPTIMIZATION_LEVEL = {
    -1: ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    0: ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    1: ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    2: ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
}

# The original's --backend-config=onnxruntime,default-max-batch-size does not reach a python-based backend.
DEFAULT_MAX_BATCH_SIZE = 4

BACKEND_CONFIG = "--backend-config=onnxruntime,"

# ONNX Runtime's errors share no base class; it also raises Python's own for unsuitable arrays.
RUN_ERRORS: tuple[type[Exception], ...] = (
    *(kind for kind in vars(ort_state).values() if isinstance(kind, type) and issubclass(kind, Exception)),
    RuntimeError,
    TypeError,
    ValueError,
)


class TritonPythonModel:
    """One instance of one ONNX model."""

    @staticmethod
    def auto_complete_config(config: Any) -> Any:
        """Complete missing inputs, outputs, and batching from the graph."""
        written = config.as_dict()
        if not (written["input"] and written["output"]):
            # The method's arguments do not include the model's path; the process's command line does.
            file = Path(os.fsdecode(Path("/proc/self/cmdline").read_bytes().split(b"\0")[1]))
            complete(written, open_session(written, file))
        return config

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the model; reject a configuration that does not match it."""
        config = json.loads(args["model_config"])
        folder = Path(args["model_repository"], args["model_version"])
        self._session = open_session(config, folder / (config["default_model_filename"] or "model.onnx"))
        check(config, self._session)
        warn_of_cpu(args)
        self._answering = CallableModel(
            config, self._run, errors=RUN_ERRORS, error_prefix="onnx runtime error"
        )
        self._run_options = read_run_options(config)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer the requests; those with equal shapes share one run."""
        return self._answering.execute(requests)

    def _run(self, feed: dict[str, Array], wanted: list[str]) -> dict[str, Array]:
        return dict(zip(wanted, self._session.run(wanted, feed, self._run_options), strict=True))


def open_session(config: Mapping[str, Any], file: Path) -> ort.InferenceSession:
    """Load the model with its configured options. For a folder, load the model.onnx in it."""
    path = file / "model.onnx" if file.is_dir() else file
    if not path.is_file():
        raise configuration_error(config, f"there is no file {path}")
    try:
        return ort.InferenceSession(
            path, sess_options=read_session_options(config), providers=["CPUExecutionProvider"]
        )
    except RUN_ERRORS as error:
        raise configuration_error(config, f"ONNX Runtime cannot read {path.name}: {error}") from error


def read_session_options(config: Mapping[str, Any]) -> ort.SessionOptions:
    """Return the original backend's model parameters."""
    options = ort.SessionOptions()
    shared = threads_of_shared_pool(server_options())
    options.intra_op_num_threads = (
        read_number(config, "intra_op_thread_count", 0)
        if shared is None
        else share_of_pool(shared, count_instances(config))
    )
    options.inter_op_num_threads = read_number(config, "inter_op_thread_count", 0)
    if read_number(config, "execution_mode", 0):
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    options.enable_cpu_mem_arena = bool(read_number(config, "enable_mem_arena", 1))
    options.enable_mem_pattern = bool(read_number(config, "enable_mem_pattern", 1))
    initializers = "session.use_device_allocator_for_initializers"
    if initializers in config["parameters"]:
        options.add_session_config_entry(initializers, str(read_number(config, initializers, 0)))
    level = config.get("optimization", {}).get("graph", {}).get("level", 0)
    if level not in OPTIMIZATION_LEVEL:
        raise configuration_error(config, f"optimization.graph.level is {level}, allowed are -1, 0, 1 and 2")
    options.graph_optimization_level = OPTIMIZATION_LEVEL[level]
    return options


def server_options() -> dict[str, str]:
    """Return the `--backend-config=onnxruntime,NAME=VALUE` options of the server, the parent process."""
    command = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode(errors="replace").split("\0")
    settings = (part.removeprefix(BACKEND_CONFIG) for part in command if part.startswith(BACKEND_CONFIG))
    return {name: value for name, _, value in (setting.partition("=") for setting in settings)}


def threads_of_shared_pool(options: Mapping[str, str]) -> int | None:
    """Return the number of threads of the pool that all sessions share; None if there is none."""
    if options.get("enable-global-threadpool", "").lower() not in ("1", "true", "on"):
        return None
    return int(options.get("intra_op_thread_count", 0)) or len(os.sched_getaffinity(0))


def share_of_pool(threads: int, instances: int) -> int:
    """Return the threads of one instance, which is a process here and cannot share a pool.

    The original computes with the workers of the pool, one less than its threads, and with the thread of each
    instance.
    """
    return max(1, min(threads + instances - 1, len(os.sched_getaffinity(0))) // instances)


def read_run_options(config: Mapping[str, Any]) -> ort.RunOptions | None:
    """Return the run options; None if none are configured."""
    name = "memory.enable_memory_arena_shrinkage"
    if name not in config["parameters"]:
        return None
    options = ort.RunOptions()
    options.add_run_config_entry(name, config["parameters"][name]["string_value"])
    return options


def complete(written: dict[str, Any], session: ort.InferenceSession) -> None:
    """Complete the configuration as the original backend would."""
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if all(dims[:1] == [-1] for dims in map(read_dims, [*inputs, *outputs])):
        written["max_batch_size"] = written["max_batch_size"] or DEFAULT_MAX_BATCH_SIZE
        if written["max_batch_size"] > 1 and "sequence_batching" not in written:
            written.setdefault("dynamic_batching", {})
    elif written["max_batch_size"]:
        raise configuration_error(
            written, "max_batch_size is set, but not every tensor has a free first dimension"
        )
    batches = written["max_batch_size"] > 0
    written["input"] = written["input"] or [_describe(written, node, batches) for node in inputs]
    written["output"] = written["output"] or [_describe(written, node, batches) for node in outputs]


def _describe(config: Mapping[str, Any], node: Any, batches: bool) -> dict[str, Any]:
    dims = read_dims(node)[1 if batches else 0 :]
    described = {"name": node.name, "data_type": read_type(config, node), "dims": dims or [1]}
    if not dims and batches:
        described["reshape"] = {"shape": []}  # Triton cannot describe a tensor without dimensions
    return described


def read_dims(node: Any) -> list[int]:
    """Return the graph's dimensions; -1 for free ones."""
    return [size if isinstance(size, int) else -1 for size in node.shape]


def read_type(config: Mapping[str, Any], node: Any) -> str:
    """Return Triton's name for the type of a graph's tensor."""
    if node.type not in TRITON_TYPE:
        raise configuration_error(
            config, f"tensor '{node.name}' has the type {node.type}, which is not supported here"
        )
    return TRITON_TYPE[node.type]


def check(config: Mapping[str, Any], session: ort.InferenceSession) -> None:
    """Reject a configuration that does not match the graph or is unsupported here."""
    reject_unsupported(config, of="ONNX Runtime")
    inputs = {node.name: node for node in session.get_inputs()}
    overridable = {node.name: node for node in session.get_overridable_initializers()}
    _check_tensors(config, "input", {**inputs, **overridable})
    _check_tensors(config, "output", {node.name: node for node in session.get_outputs()})
    given = {entry["name"] for entry in config["input"]} | set(control_inputs(config))
    missing = sorted(set(inputs) - given)
    if missing:
        raise configuration_error(
            config, f"the graph needs inputs that the configuration lacks: {', '.join(missing)}"
        )


def _check_tensors(config: Mapping[str, Any], kind: str, nodes: Mapping[str, Any]) -> None:
    for entry in config[kind]:
        name = entry["name"]
        if name not in nodes:
            raise configuration_error(
                config, f"the graph has no {kind} '{name}', it has {', '.join(sorted(nodes))}"
            )
        actual = read_type(config, nodes[name])
        if entry["data_type"] != actual:
            raise configuration_error(
                config, f"{kind} '{name}' is {actual} in the graph, not {entry['data_type']}"
            )
        _check_dims(config, kind, entry, read_dims(nodes[name]))


def _check_dims(
    config: Mapping[str, Any], kind: str, entry: Mapping[str, Any], actual: Sequence[int]
) -> None:
    reshape = entry.get("reshape")
    written = [int(size) for size in (reshape.get("shape", []) if reshape else entry["dims"])]
    if not actual and not config["max_batch_size"]:
        fits = all(size == 1 for size in written)
    else:
        full = [-1, *written] if config["max_batch_size"] else written
        fits = len(full) == len(actual) and all(a in (-1, w) for a, w in zip(actual, full, strict=True))
    if not fits:
        batch = "a batch dimension and " if config["max_batch_size"] else ""
        raise configuration_error(
            config, f"{kind} '{entry['name']}' is {list(actual)} in the graph, not {batch}{written}"
        )
