"""TorchScript modules: loaded, compared, and reproducible."""

import dataclasses
import hashlib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model_build.errors import ExportError
from model_build.exporters.torchscript import load_torchscript, save_torchscript, trace_module

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


def test_saved_modules_answer_the_same_for_other_shapes(tmp_path):
    module = Layers()
    traced = trace_module(module, {"x": X, "mask": MASK}, outputs=["y"])
    loaded = load_torchscript(save_torchscript(traced, tmp_path), outputs=["y"])
    assert loaded.inputs == ("x", "mask")
    x = np.random.default_rng(0).random((5, 3), np.float32)
    mask = np.ones((5, 1), np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(x), mask=torch.from_numpy(mask))["y"].numpy()
    np.testing.assert_array_equal(loaded.answer({"x": x, "mask": mask})["y"], expected)


def test_module_bytes_do_not_depend_on_earlier_traces(tmp_path):
    digests = set()
    for number in range(2):
        traced = trace_module(Layers(), {"x": X, "mask": MASK})
        file = save_torchscript(traced, tmp_path / str(number))
        digests.add(hashlib.sha256(file.read_bytes()).hexdigest())
    assert len(digests) == 1


def test_a_saved_module_contains_no_local_paths(tmp_path):
    file = save_torchscript(trace_module(Layers(), {"x": X, "mask": MASK}), tmp_path)
    here = str(Path(__file__).parent).encode()
    with zipfile.ZipFile(file) as archive:
        assert not any(here in archive.read(name) for name in archive.namelist())


def test_tensors_start_at_mappable_offsets(tmp_path):
    file = save_torchscript(trace_module(Layers(), {"x": X, "mask": MASK}), tmp_path)
    content = file.read_bytes()
    for layer in (Layers().first, Layers().second):
        assert content.index(layer.weight.detach().numpy().tobytes()) % 64 == 0


def test_input_not_accepted_by_forward():
    with pytest.raises(ExportError, match="has no input 'masks'; inputs: x, mask") as caught:
        trace_module(Layers(), {"x": X, "masks": MASK})
    assert "did you mean 'mask'?" in str(caught.value)


def test_a_missing_output():
    with pytest.raises(ExportError, match="has no output 'z'; outputs: y, x"):
        trace_module(Layers(), {"x": X, "mask": MASK}, outputs=["z"])


def test_an_output_that_is_not_a_tensor():
    with pytest.raises(ExportError, match="output 'y' is a int, not a tensor"):
        trace_module(Layers("odd"), {"x": X, "mask": MASK})


def test_names_that_the_backend_reads_as_positions():
    class Numbered(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"a__1": x, "b__0": x}

    with pytest.raises(ExportError, match="outputs a__1, b__0: Triton reads these numbers as positions"):
        trace_module(Numbered(), {"x": X})
