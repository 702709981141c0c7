"""Exports in the layout of Merlin Systems, with steps that a Triton without Merlin's libraries can run.

A workflow step is a Python model that computes with tables in a pickle, as NVTabular's does; a PyTorch step
is TorchScript that takes one dictionary of tensors.
"""

import pickle
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Arrays = Mapping[str, Array]
WORKFLOW, PYTORCH = "transformworkflowtriton", "predictpytorchtriton"
TENSORFLOW, FOREST = "predicttensorflowtriton", "filtriton"
BACKENDS = {
    WORKFLOW: ("", "python"),
    PYTORCH: ("pytorch_libtorch", "pytorch"),
    TENSORFLOW: ("tensorflow_savedmodel", ""),
    FOREST: ("", "fil"),
}
MODEL_PY = """\
import json
import os
import pickle

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.types = {
            tensor["name"]: pb_utils.triton_string_to_numpy(tensor["data_type"])
            for tensor in config["output"]
        }
        folder = os.path.join(args["model_repository"], args["model_version"], "workflow")
        with open(os.path.join(folder, "workflow.pkl"), "rb") as file:
            self.terms = pickle.load(file)

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        inputs = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        outputs = [
            pb_utils.Tensor(name, (inputs[source] * factor + term).astype(self.types[name]))
            for name, (source, factor, term) in self.terms.items()
        ]
        return pb_utils.InferenceResponse(outputs)
"""


@dataclass(frozen=True)
class Column:
    """A tensor in a config.pbtxt."""

    name: str
    datatype: str
    dims: tuple[int, ...]


Columns = Sequence[Column]
Terms = Mapping[str, tuple[str, int, int]]
"""Output -> the input that it is computed from, a factor, and a term."""


@dataclass(frozen=True)
class Step:
    """One numbered folder."""

    kind: str
    inputs: Columns
    outputs: Columns
    terms: Terms = field(default_factory=dict)
    """What a workflow computes."""
    module: Callable[[], Any] | None = None
    """What makes the module of a PyTorch step."""
    max_batch: int = 0


@dataclass(frozen=True)
class Export:
    """A whole export."""

    steps: Sequence[Step]
    inputs: Columns
    outputs: Columns
    name: str = "executor_model"
    operators: Sequence[str] = ()
    """Modules of operators in the executor's graph, besides those of the steps."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """More files of the executor's version."""

    def write(self, root: Path) -> Path:
        """Write all folders."""
        for number, step in enumerate(self.steps):
            write_step(root / f"{number}_{step.kind}", step)
        executor = root / self.name
        (executor / "1" / "ensemble").mkdir(parents=True)
        text = config(self.name, "merlin_executor", "python", self.inputs, self.outputs)
        (executor / "config.pbtxt").write_text(text)
        (executor / "1/model.py").write_text("from merlin.systems.triton.models import executor_model\n")
        modules = ["merlin.systems.dag.runtimes.triton.ops.workflow", *self.operators]
        (executor / "1/ensemble/ensemble.pkl").write_bytes(graph_pickle(modules))
        (executor / "1/ensemble/metadata.json").write_text(
            '{"versions": {"python": "3.10.12"}, "generated_timestamp": 1700000000}'
        )
        for name, data in self.files.items():
            (executor / "1" / name).write_bytes(data)
        return root


def write_step(folder: Path, step: Step) -> None:
    """Write one numbered folder."""
    version = folder / "1"
    version.mkdir(parents=True)
    platform, backend = BACKENDS[step.kind]
    text = config(folder.name, platform, backend, step.inputs, step.outputs, step.max_batch)
    (folder / "config.pbtxt").write_text(text)
    if step.kind == WORKFLOW:
        (version / "model.py").write_text(MODEL_PY)
        (version / "workflow").mkdir()
        (version / "workflow/workflow.pkl").write_bytes(pickle.dumps(dict(step.terms)))
        (version / "workflow/metadata.json").write_text("{}")
    elif step.kind == TENSORFLOW:
        (version / "model.savedmodel").mkdir()
        (version / "model.savedmodel/saved_model.pb").write_bytes(b"graph")
    elif step.kind == FOREST:
        (version / "xgboost.json").write_text("{}")
    elif step.module is not None:
        save_module(version / "model.pt", step.module)


def config(
    name: str, platform: str, backend: str, inputs: Columns, outputs: Columns, max_batch: int = 0
) -> str:
    """Return protobuf's text format as Merlin prints it: a field per line, and no default values."""
    lines = [f'name: "{name}"']
    lines += [f'platform: "{platform}"'] if platform else []
    lines += [f"max_batch_size: {max_batch}"] if max_batch else []
    for kind, columns in (("input", inputs), ("output", outputs)):
        for column in columns:
            lines += [f"{kind} {{", f'  name: "{column.name}"', f"  data_type: TYPE_{column.datatype}"]
            lines += [f"  dims: {size}" for size in column.dims] + ["}"]
    lines += ["instance_group {", "}"]
    if platform == "pytorch_libtorch":
        value = ["  value {", '    string_value: "true"', "  }"]
        lines += ["parameters {", '  key: "INFERENCE_MODE"', *value, "}"]
    lines += [f'backend: "{backend}"'] if backend else []
    return "\n".join(lines) + "\n"


def graph_pickle(modules: Sequence[str]) -> bytes:
    """Return a list of classes of these modules, which do not exist here, in pickle's protocol 4."""

    def text(name: str) -> bytes:
        return pickle.SHORT_BINUNICODE + bytes([len(name)]) + name.encode()

    entries = (text(module) + text("Operator") + pickle.STACK_GLOBAL + pickle.APPEND for module in modules)
    return pickle.PROTO + b"\x04" + pickle.EMPTY_LIST + b"".join(entries) + pickle.STOP


def save_module(file: Path, make: Callable[[], Any]) -> None:
    """Save a scripted module."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted: Any = torch.jit.script(make())
        scripted.save(str(file))


def answers(export: Export, inputs: Arrays) -> dict[str, Array]:
    """Run the steps in order in Python; an output replaces an earlier tensor of its name."""
    arrays = dict(inputs)
    for step in export.steps:
        if step.module is not None:
            arrays.update(run_module(step, arrays))
            continue
        outputs = {}
        for column in step.outputs:
            source, factor, term = step.terms[column.name]
            dtype = {"INT64": np.int64, "INT32": np.int32, "FP32": np.float32}[column.datatype]
            outputs[column.name] = (arrays[source] * factor + term).astype(dtype)
        arrays.update(outputs)
    return {column.name: arrays[column.name] for column in export.outputs}


def run_module(step: Step, arrays: Arrays) -> dict[str, Array]:
    """Run a PyTorch step."""
    import torch

    assert step.module is not None
    tensors = {column.name: torch.from_numpy(arrays[column.name].copy()) for column in step.inputs}
    with torch.inference_mode():
        return {step.outputs[0].name: step.module()(tensors).numpy()}


def ragged_scores() -> Any:
    """Return a module that averages the embeddings of each row's items."""
    import torch

    class Ragged(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(11)
            self.items = torch.nn.Embedding(64, 6)
            self.head = torch.nn.Linear(6, 5)

        def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
            vectors = self.items(inputs["item__values"])
            offsets = inputs["item__offsets"].to(torch.int64)
            count = offsets.size(0) - 1
            rows = [vectors[offsets[row] : offsets[row + 1]].mean(0) for row in range(count)]
            return self.head(torch.stack(rows))

    return Ragged()


def ragged(second: str = "offsets", name: str = "item") -> list[Column]:
    """Return the tensors of a ragged column."""
    return [Column(f"{name}__values", "INT64", (-1,)), Column(f"{name}__{second}", "INT32", (-1,))]


def passed(second: str) -> Terms:
    """Return a workflow over a ragged column."""
    return {
        "item__values": ("item__values", 2, 1),
        f"item__{second}": (f"item__{second}", 1, 0),
    }


LISTS = Column("item", "INT64", (-1, 3))
PRICE = Column("price", "FP32", (-1, 1))
SCORE = Column("score", "FP32", (-1, 1))
SCORES = Column("next", "FP32", (-1, 5))
RAGGED = {"item__values": np.array([3, 1, 4, 1, 5]), "item__offsets": np.array([0, 3, 5], np.int32)}
FIXED = {"item": np.array([[1, 2, 3], [4, 5, 6]]), "price": np.array([[0.5], [2.0]], np.float32)}


def workflow(inputs: Columns, outputs: Columns, terms: Terms) -> Step:
    """Return a workflow step."""
    return Step(WORKFLOW, inputs, outputs, terms)


RAGGED_TORCH = Export(
    [
        workflow(ragged(), ragged(), passed("offsets")),
        Step(PYTORCH, ragged(), [SCORES], module=ragged_scores),
    ],
    ragged(),
    [SCORES],
)
TWO_WORKFLOWS = Export(
    [
        workflow([LISTS, PRICE], [LISTS, PRICE], {"item": ("item", 2, 0), "price": ("price", 1, 1)}),
        workflow([LISTS, PRICE], [LISTS, PRICE], {"item": ("item", 1, 7), "price": ("price", 3, 0)}),
        workflow([LISTS, PRICE], [SCORE], {"score": ("price", 1, 9)}),
    ],
    [LISTS, PRICE],
    [SCORE],
)
BRANCHES = Export(
    [
        workflow(
            [LISTS, PRICE],
            [LISTS, PRICE, Column("unused", "FP32", (-1, 1))],
            {"item": ("item", 2, 0), "price": ("price", 1, 1), "unused": ("price", 1, 0)},
        ),
        workflow([LISTS], [Column("code", "INT64", (-1, 3))], {"code": ("item", 1, 9)}),
        workflow([PRICE], [Column("cost", "FP32", (-1, 1))], {"cost": ("price", 5, 0)}),
        workflow(
            [Column("code", "INT64", (-1, 3)), Column("cost", "FP32", (-1, 1))],
            [Column("last", "INT64", (-1, 3)), Column("bill", "FP32", (-1, 1))],
            {"last": ("code", 1, 1), "bill": ("cost", 1, 1)},
        ),
    ],
    [LISTS, PRICE],
    [Column("last", "INT64", (-1, 3)), Column("bill", "FP32", (-1, 1)), Column("code", "INT64", (-1, 3))],
)


def older(second: str) -> Export:
    """Return an export of a Merlin that describes rows by their lengths."""
    out = ragged(second, "item_id")
    second_terms: Terms = {
        "item_id__values": ("item__values", 1, 1),
        f"item_id__{second}": (f"item__{second}", 1, 0),
    }
    return Export(
        [
            workflow(ragged(second), ragged(second), passed(second)),
            workflow(ragged(second), out, second_terms),
        ],
        ragged(second),
        out,
    )


def lengths(second: str) -> Arrays:
    """Return a request for such an export."""
    return {"item__values": RAGGED["item__values"], f"item__{second}": np.array([3, 2], np.int32)}


TENSORFLOW_STEP = Export(
    [
        workflow([LISTS, PRICE], [LISTS, PRICE], {"item": ("item", 2, 0), "price": ("price", 1, 1)}),
        Step(TENSORFLOW, [LISTS, PRICE], [Column("click/binary", "FP32", (-1, 1))]),
    ],
    [LISTS, PRICE],
    [Column("click/binary", "FP32", (-1, 1))],
)
