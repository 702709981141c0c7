"""Models of the contract cases: a few lines of Python each, with numpy only.

    python -m tests.contract.models FOLDER

writes them for a container or an endpoint: `FOLDER/single` and `FOLDER/ensemble` are
the contents of /opt/ml/model; `FOLDER/archives` has the archives of a multi-model endpoint, each under its
TargetModel, and `single.tar.gz` and `ensemble.tar.gz` for the other two.
"""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

DOUBLE, CHAIN = "double", "chain"
DOUBLE_TARGET, CHAIN_TARGET = "contract/double.tar.gz", "contract/chain.tar.gz"

# What `double` answers to, when it is the first number of a request.
REJECTS, OUT_OF_MEMORY, RAISES, SLEEPS, DIES = -1.0, -2.0, -3.0, -4.0, -5.0
SLEEP_S = 1.0
LOAD_S = 2.0

DOUBLE_CODE = f"""
import os
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        first = x.flat[0] if x.size else 0
        if first == {REJECTS}:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("minus one is no input"))
        if first == {OUT_OF_MEMORY}:
            error = pb_utils.TritonError("CUDA out of memory, says the model")
            return pb_utils.InferenceResponse(error=error)
        if first == {RAISES}:
            raise ValueError("the model raised this")
        if first == {SLEEPS}:
            time.sleep({SLEEP_S})
        if first == {DIES}:
            os.abort()
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", x * 2)])
"""

TREBLE_CODE = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        tensors = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", x * 3)]) for x in tensors]
"""

BROKEN_CODE = """
class TritonPythonModel:
    def initialize(self, args):
        raise RuntimeError("the weights are missing")
"""

SLOW_CODE = DOUBLE_CODE.replace(
    "    def execute", f"    def initialize(self, args):\n        time.sleep({LOAD_S})\n\n    def execute", 1
)

OUT_OF_MEMORY_CODE = BROKEN_CODE.replace("the weights are missing", "CUDA out of memory, says the model")

NUMBERS = """
{name}
backend: "python"
max_batch_size: 8
input [ {{ name: "x" data_type: TYPE_FP32 dims: [ -1 ] }} ]
output [ {{ name: "y" data_type: TYPE_FP32 dims: [ -1 ] }} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""

ENSEMBLE = """
{scheduler}
max_batch_size: 8
input [ {{ name: "x" data_type: TYPE_FP32 dims: [ -1 ] }} ]
output [ {{ name: "y" data_type: TYPE_FP32 dims: [ -1 ] }} ]
ensemble_scheduling {{ step [
  {{ model_name: "double" model_version: -1
    input_map {{ key: "x" value: "x" }} output_map {{ key: "y" value: "doubled" }} }},
  {{ model_name: "treble" model_version: -1
    input_map {{ key: "x" value: "doubled" }} output_map {{ key: "y" value: "y" }} }}
] }}
"""

# numpy's kind for each datatype; bfloat16 has none.
DATATYPES = {
    "BOOL": "?",
    "UINT8": "u1",
    "UINT16": "u2",
    "UINT32": "u4",
    "UINT64": "u8",
    "INT8": "i1",
    "INT16": "i2",
    "INT32": "i4",
    "INT64": "i8",
    "FP16": "f2",
    "FP32": "f4",
    "FP64": "f8",
    "BYTES": "O",
    "BF16": None,
}

ECHO_CODE = """
import triton_python_backend_utils as pb_utils


def copied(tensor):
    name = tensor.name() + "_back"
    if tensor.name() == "BYTES":
        return pb_utils.Tensor(name, tensor.as_numpy())
    return pb_utils.Tensor.from_dlpack(name, tensor.to_dlpack())


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([copied(one) for one in request.inputs()]) for request in requests]
"""

DECOUPLED_CODE = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("y", x)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def write_model(
    folder: Path, *, code: str = DOUBLE_CODE, config: str | None = None, name: str | None = None
) -> Path:
    """Write a model into its folder; `name` is the name in its config, None to omit it."""
    (folder / "1").mkdir(parents=True)
    (folder / "1/model.py").write_text(code)
    name_line = "" if name is None else f'name: "{name}"'
    (folder / "config.pbtxt").write_text(config or NUMBERS.format(name=name_line))
    return folder


def write_ensemble(
    folder: Path, *, scheduler: str = 'platform: "ensemble"', version: bool = True, name: str = CHAIN
) -> Path:
    """Write the ensemble without its parts, with the configuration of `scheduler`."""
    (folder / name).mkdir(parents=True)
    if version:
        (folder / name / "1").mkdir()
        (folder / name / "1/KEEP").write_text("an archive may drop a folder that is empty\n")
    (folder / name / "config.pbtxt").write_text(ENSEMBLE.format(scheduler=scheduler))
    return folder / name


def write_parts(folder: Path) -> None:
    """Write the two models of the ensemble."""
    write_model(folder / "double")
    write_model(folder / "treble", code=TREBLE_CODE)


def single(folder: Path) -> Path:
    """Write a repository with one model: y = 2x."""
    write_model(folder / DOUBLE)
    return folder


def ensemble(folder: Path) -> Path:
    """Write a repository with an ensemble and its parts: y = 6x."""
    write_parts(folder)
    write_ensemble(folder)
    return folder


def echo(folder: Path) -> Path:
    """Write a repository with a model that returns a tensor of any datatype."""

    def listed(suffix: str, extra: str) -> str:
        kinds = {name: "STRING" if name == "BYTES" else name for name in DATATYPES}
        return ", ".join(
            f'{{ name: "{name}{suffix}" data_type: TYPE_{kind} dims: [ -1, -1 ] {extra} }}'
            for name, kind in kinds.items()
        )

    config = (
        f'backend: "python"\nmax_batch_size: 0\ninput [ {listed("", "optional: true")} ]\n'
        f"output [ {listed('_back', '')} ]\n"
    )
    write_model(folder / "echo", code=ECHO_CODE, config=config)
    return folder


def decoupled(folder: Path) -> Path:
    """Write a repository with a decoupled model."""
    config = NUMBERS.format(name="") + "model_transaction_policy { decoupled: true }\n"
    write_model(folder / "decoupled", code=DECOUPLED_CODE, config=config)
    return folder


def lay_out(folder: Path) -> None:
    """Write everything that an endpoint needs."""
    repositories = {"single": single(folder / "single"), "ensemble": ensemble(folder / "ensemble")}
    archives = {f"{name}.tar.gz": repository for name, repository in repositories.items()}
    archives |= {DOUBLE_TARGET: repositories["single"], CHAIN_TARGET: repositories["ensemble"]}
    for name, repository in archives.items():
        file = folder / "archives" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(file, "w:gz") as archive:
            archive.add(repository, arcname=".")


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]))
