"""A Python model that reports its surroundings, with its repository and requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tritonstack.triton import TritonResponse

CONFIG = """
backend: "python"
max_batch_size: 0
input [{ name: "ASK" data_type: TYPE_STRING dims: [ 1 ] }]
output [{ name: "TOLD" data_type: TYPE_STRING dims: [ 1 ] }]
"""
MODEL = """
import importlib.metadata
import json
import os
import socket

import numpy as np
import triton_python_backend_utils as pb_utils


def version(package):
    __import__("PIL" if package == "pillow" else package)
    return importlib.metadata.version(package)


def reached(address):
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=3):
        return True


def written(path):
    with open(path, "w"):
        return True


ANSWERS = {
    "version": version,
    "reached": reached,
    "written": written,
    "variable": os.environ.get,
    "user": lambda _: os.getuid(),
    "memory": lambda path: os.statvfs(path).f_frsize * os.statvfs(path).f_blocks,
    "interfaces": lambda _: sorted(name for _, name in socket.if_nameindex()),
    "die": lambda _: os.kill(os.getppid(), 9),
}


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        kind, subject = json.loads(pb_utils.get_input_tensor_by_name(request, "ASK").as_numpy()[0])
        try:
            told = ANSWERS[kind](subject)
        except OSError as error:
            told = type(error).__name__
        tensor = pb_utils.Tensor("TOLD", np.array([json.dumps(told)], dtype=object))
        return pb_utils.InferenceResponse([tensor])

    def finalize(self):
        print("the probe says goodbye", flush=True)
"""
FILES = {"probe/config.pbtxt": CONFIG, "probe/1/model.py": MODEL}


def write_probe(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def question(kind: str, subject: str = "") -> bytes:
    tensor = {"name": "ASK", "datatype": "BYTES", "shape": [1], "data": [json.dumps([kind, subject])]}
    return json.dumps({"inputs": [tensor]}).encode()


def told(body: bytes) -> Any:
    (output,) = json.loads(body)["outputs"]
    return json.loads(output["data"][0])


def told_by(answer: TritonResponse) -> Any:
    assert answer.status == 200, answer.body
    return told(answer.body)
