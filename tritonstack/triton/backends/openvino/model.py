"""Stand-in for Triton's OpenVINO backend, written in Python.

Unmodified model repositories with `backend: "openvino"` run through this file. It follows the original's
source (src/openvino.cc, r24.03 to r26.05): model parameters, completion of configurations, checks of names,
types, and shapes, and batching. With `max_batch_size`, the original fixes the graph's batch to that size, and
rejects every smaller batch; this file does the same.

Triton's Python backend starts one process per model instance and calls the class below in it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

# The installer links openvino into this backend's own folder, so Python models do not see it.
sys.path.append(str(Path(__file__).with_name("packages")))

import openvino as ov
import triton_python_backend_utils as pb_utils
from openvino.preprocess import PrePostProcessor
from stand_in import (
    CallableModel,
    configuration_error,
    count_instances,
    read_text,
    reject_unsupported,
)

Array = npt.NDArray[Any]

ELEMENT_OF_TYPE = {
    "TYPE_BOOL": ov.Type.boolean,
    "TYPE_UINT8": ov.Type.u8,
    "TYPE_UINT16": ov.Type.u16,
    "TYPE_UINT32": ov.Type.u32,
    "TYPE_UINT64": ov.Type.u64,
    "TYPE_INT8": ov.Type.i8,
    "TYPE_INT16": ov.Type.i16,
    "TYPE_INT32": ov.Type.i32,
    "TYPE_INT64": ov.Type.i64,
    "TYPE_FP16": ov.Type.f16,
    "TYPE_FP32": ov.Type.f32,
}
UNSUPPORTED = ("CPU_EXTENSION_PATH", "ENABLE_BATCH_PADDING", "RESHAPE_IO_LAYERS", "TARGET_DEVICE")
"""Parameters of the original that this file does not implement; the last one only allows CPU."""
STREAMS = {"auto": "AUTO", "numa": "NUMA"}
HINTS = ("latency", "throughput", "cumulative_throughput")
ERRORS: tuple[type[Exception], ...] = (RuntimeError, TypeError, ValueError)


class TritonPythonModel:
    """One instance of one model."""

    @staticmethod
    def auto_complete_config(config: Any) -> Any:
        """Complete missing inputs and outputs from the graph."""
        written = config.as_dict()
        if not (written["input"] and written["output"]):
            # The method's arguments do not include the model's path; the process's command line does.
            file = Path(os.fsdecode(Path("/proc/self/cmdline").read_bytes().split(b"\0")[1]))
            model = read_model(written, file)
            written["input"] = written["input"] or [_describe(written, port) for port in model.inputs]
            written["output"] = written["output"] or [_describe(written, port) for port in model.outputs]
        return config

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the model; reject a configuration that does not match it."""
        config = json.loads(args["model_config"])
        if args["model_instance_kind"] == "GPU":
            raise configuration_error(config, "Triton OpenVINO backend supports only Kind CPU and AUTO")
        reject_unsupported(config, of="OpenVINO")
        folder = Path(args["model_repository"], args["model_version"])
        model = read_model(config, folder / (config["default_model_filename"] or "model.xml"))
        self._max_batch = int(config["max_batch_size"])
        try:
            compiled = ov.Core().compile_model(fit(config, model), "CPU", read_properties(config))
        except ERRORS as error:
            raise configuration_error(config, f"openvino error in loading model : {error}") from error
        self._request = compiled.create_infer_request()
        self._answering = CallableModel(
            config, self._run, errors=ERRORS, error_prefix="openvino error in running inference - wait "
        )

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer the requests one by one."""
        if self._max_batch:
            # The original adds the requests up, and compares the sum after each of them.
            rows = int(requests[0].inputs()[0].shape()[0])
            if rows != self._max_batch or len(requests) > 1:
                return [self._wrong_batch(rows) for _ in requests]
        return self._answering.execute(requests)

    def _wrong_batch(self, rows: int) -> Any:
        message = (
            f"expected requests with batch size '{self._max_batch}', got '{rows}'... this error can be "
            "avoided by setting 'ENABLE_BATCH_PADDING' parameter in model configuration to 'YES' at a "
            "performance cost."
        )
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(message))

    def _run(self, feed: dict[str, Array], wanted: list[str]) -> dict[str, Array]:
        results = self._request.infer(feed, share_inputs=True)
        return {name: results[name] for name in wanted}


def read_model(config: Mapping[str, Any], file: Path) -> ov.Model:
    """Read a model file of any format that OpenVINO knows."""
    if not file.exists():
        raise configuration_error(config, f"unable to find '{file}' for model '{config['name']}'")
    try:
        return ov.Core().read_model(file)
    except ERRORS as error:
        raise configuration_error(config, f"openvino error in reading model : {error}") from error


def read_properties(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return OpenVINO's properties for the model's parameters."""
    for name in UNSUPPORTED:
        asked = read_text(config, name)
        if asked and asked.lower() not in ("no", "cpu"):
            raise configuration_error(
                config, f"parameter {name} is not supported by this server's stand-in for OpenVINO"
            )
    threads = _threads(config, "INFERENCE_NUM_THREADS")
    if not threads and count_instances(config) > 1:
        # The original's instances share one pool; here, each one is a process with its own.
        threads = max(1, len(os.sched_getaffinity(0)) // count_instances(config))
    properties: dict[str, Any] = {
        "INFERENCE_NUM_THREADS": threads,
        "COMPILATION_NUM_THREADS": _threads(config, "COMPILATION_NUM_THREADS"),
    }
    properties = {name: value for name, value in properties.items() if value}
    if hint := read_text(config, "HINT_BF16"):
        if hint.lower() != "yes":
            raise _expected(config, "HINT_BF16", "YES", hint)
        properties["INFERENCE_PRECISION_HINT"] = "bf16"
    if streams := read_text(config, "NUM_STREAMS"):
        if streams.lower() not in STREAMS and not streams.isdecimal():
            raise _expected(config, "NUM_STREAMS", "either AUTO/NUMA/<int_value>", streams)
        properties["NUM_STREAMS"] = STREAMS.get(streams.lower(), streams)
    if mode := read_text(config, "PERFORMANCE_HINT"):
        if mode.lower() not in HINTS:
            raise _expected(config, "PERFORMANCE_HINT", "LATENCY/THROUGHPUT/CUMULATIVE_THROUGHPUT", mode)
        properties["PERFORMANCE_HINT"] = mode.upper()
    return properties


def _threads(config: Mapping[str, Any], name: str) -> int:
    text = read_text(config, name) or "0"
    if not text.isdecimal():
        raise _expected(config, name, "a non-negative number", text)
    return int(text)


def _expected(config: Mapping[str, Any], name: str, allowed: str, got: str) -> Exception:
    return configuration_error(config, f"expected the parameter '{name}' to be {allowed}, got {got.lower()}")


def fit(config: Mapping[str, Any], model: ov.Model) -> ov.Model:
    """Check the configuration against the model; return the model with the configured types and batch."""
    if len(config["input"]) != len(model.inputs):
        raise configuration_error(
            config,
            f"configuration expects {len(config['input'])} inputs, model provides {len(model.inputs)}",
        )
    fitting = PrePostProcessor(model)
    for kind, ports, side in (
        ("input", model.inputs, fitting.input),
        ("output", model.outputs, fitting.output),
    ):
        known = {port.get_any_name(): port for port in ports}
        for entry in config[kind]:
            name = entry["name"]
            if name not in known:
                raise configuration_error(
                    config,
                    f"unexpected inference {kind} '{name}', allowed {kind}s are: {', '.join(sorted(known))}",
                )
            if entry["data_type"] not in ELEMENT_OF_TYPE:
                raise configuration_error(
                    config, f"unsupported datatype {entry['data_type']} for {kind} '{name}'"
                )
            side(name).tensor().set_element_type(ELEMENT_OF_TYPE[entry["data_type"]])
            _check_dims(config, entry, known[name].get_partial_shape(), exact=kind == "output")
            if kind == "input" and config["max_batch_size"]:
                side(name).tensor().set_layout(ov.Layout("N..."))
    model = fitting.build()
    if config["max_batch_size"]:
        ov.set_batch(model, config["max_batch_size"])
    return model


def _check_dims(
    config: Mapping[str, Any], entry: Mapping[str, Any], shape: ov.PartialShape, *, exact: bool
) -> None:
    reshape = entry.get("reshape")
    dims = [int(size) for size in (reshape.get("shape", []) if reshape else entry["dims"])]
    batch = [config["max_batch_size"]] if config["max_batch_size"] else []
    full = [*batch, *dims]
    fits = len(shape) == len(full)
    for index, (actual, written) in enumerate(zip(shape, full, strict=False)):
        compared = not batch or exact or (index and written != -1)
        # Dimensions with an upper bound do not occur in ONNX graphs.
        fits &= not compared or actual.is_dynamic or actual.get_length() == written
    if not fits:
        actual = [-1 if size.is_dynamic else size.get_length() for size in shape]
        raise configuration_error(
            config,
            f"tensor '{entry['name']}': the model expects {len(shape)} dimensions (shape {actual}) but the "
            f"model configuration specifies {len(full)} dimensions (shape {full})",
        )


def _describe(config: Mapping[str, Any], port: Any) -> dict[str, Any]:
    shape = port.get_partial_shape()
    dims = [size.get_length() if shape.is_static else -1 for size in shape]
    types = [name for name, element in ELEMENT_OF_TYPE.items() if element == port.get_element_type()]
    return {
        "name": port.get_any_name(),
        "data_type": types[0] if types else "TYPE_INVALID",
        "dims": dims[1 if config["max_batch_size"] else 0 :],
    }
