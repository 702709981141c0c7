"""TorchScript modules: loaded, compared, and reproducible."""

import dataclasses
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model_build.errors import ExportError
from model_build.exporters.torchscript import save_torchscript, trace_module

X = np.ones((2, 3), np.float32)
MASK = np.array([[1.0], [0.0]], np.float32)


@dataclasses.dataclass
class Record:
    y: torch.Tensor
    missing: torch.Tensor | None = None


class Layers(torch.nn.Module):
    """Two layers of the same class: PyTorch adds a number to the second one's name."""

    def __init__(self, form: str = "dict") -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second, self.form = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2), form

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor) -> Any:
        y = self.second(self.first(x)) * mask
        forms = {"dict": {"y": y, "x": x}, "tuple": (y, x), "record": Record(y), "tensor": y, "odd": {"y": 1}}
        return forms[self.form]


@pytest.mark.parametrize(
    ("form", "names"),
    [
        ("dict", ("y", "x")),
        ("tuple", ("OUTPUT__0", "OUTPUT__1")),
        ("record", ("y",)),
        ("tensor", ("OUTPUT__0",)),
    ],
)
def test_outputs_are_named(form, names):
    traced = trace_module(Layers(form), {"mask": MASK, "x": X})
    assert (traced.inputs, traced.outputs) == (("x", "mask"), names)


def test_module_bytes_do_not_depend_on_earlier_traces(tmp_path):
    files = [
        save_torchscript(trace_module(Layers(), {"x": X, "mask": MASK}), tmp_path / name) for name in "ab"
    ]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_saved_module_has_no_local_paths_and_mappable_tensors(tmp_path):
    file = save_torchscript(trace_module(Layers(), {"x": X, "mask": MASK}), tmp_path)
    here = str(Path(__file__).parent).encode()
    with zipfile.ZipFile(file) as archive:
        assert not any(here in archive.read(name) for name in archive.namelist())
    content = file.read_bytes()
    for layer in (Layers().first, Layers().second):
        assert content.index(layer.weight.detach().numpy().tobytes()) % 64 == 0


class Numbered(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"a__1": x, "b__0": x}


@pytest.mark.parametrize(
    ("module", "inputs", "outputs", "value"),
    [
        (Layers(), {"x": X, "masks": MASK}, None, "'mask'?"),
        (Layers(), {"x": X, "mask": MASK}, ["z"], "outputs: y, x"),
        (Layers("odd"), {"x": X, "mask": MASK}, None, "is a int"),
        (Numbered(), {"x": X}, None, "a__1, b__0"),
    ],
)
def test_tensors_that_cannot_be_named(module, inputs, outputs, value):
    with pytest.raises(ExportError) as caught:
        trace_module(module, inputs, outputs=outputs)
    assert value in str(caught.value)
