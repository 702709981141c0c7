"""Stand in for Triton's TensorRT backend: serve the stand-in trtexec's plans, which contain their graph.

Like the original, it loads the file that cc_model_filenames names for the GPU's compute capability, which the
installation states in `capability` beside this file. It accepts only tensors of the engine's types, and runs
an engine with embedded code only if the server was told to trust it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnxruntime
import triton_python_backend_utils as pb_utils

MAGIC = b"stand-in plan\n"
TRUST = b"--backend-config=tensorrt,version-compatible=true"


class TritonPythonModel:
    """One instance of one engine."""

    def initialize(self, args: Mapping[str, str]) -> None:
        config = json.loads(args["model_config"])
        capability = Path(__file__).with_name("capability").read_text()
        files = config.get("cc_model_filenames", {})
        name = files.get(capability) or config["default_model_filename"] or "model.plan"
        plan = Path(args["model_repository"], args["model_version"], name).read_bytes()
        header, _, content = plan.removeprefix(MAGIC).partition(b"\n")
        folder = tempfile.TemporaryDirectory()
        facts = json.loads(header)
        server = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().split(b"\0")
        if "--versionCompatible" in facts["flags"] and TRUST not in server:
            raise RuntimeError("Cannot deserialize engine with lean runtime since it is not trusted")
        for file, size in facts["files"]:
            Path(folder.name, file).write_bytes(content[:size])
            content = content[size:]
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.x64quantprecision", "1")  # TensorRT adds in 32 bits
        self._session = onnxruntime.InferenceSession(
            Path(folder.name, "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._outputs = [output["name"] for output in config["output"]]

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer each request in its own run."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        inputs = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        arrays = self._session.run(self._outputs, inputs)
        pairs = zip(self._outputs, arrays, strict=True)
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, array) for name, array in pairs])
