"""Sizes that tracing turned into constants, and the proof of user-supplied graphs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.data.context import WrittenRepository
from tests.model_build.supplied_models import save_onnx, write_supplied
from tests.model_build.written_repositories import error_of, tensors, write_repository
from tritonstack.base.errors import InvalidFilesError

ENTRY = """\
import torch


class Module(torch.nn.Module):
    def forward(self, x{more}):
        {body}


def make(folder):
    torch.manual_seed(0)
    return Module()
"""
VARIES = {"x": {"datatype": "FP32", "shape": [-1]}}
FIVE = [{"inputs": {"x": [1.0, 2.0, 3.5, -1.0, 0.5]}}]


def traced(folder: Path, body: str, *, more: str = "", **changes: Any) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "module.py").write_text(ENTRY.format(body=body, more=more))
    facts: dict[str, Any] = {"test_inputs": FIVE, "tensors": VARIES, "batching": {"max_batch": 0}} | changes
    return write_supplied(folder, {"kind": "torchscript", "entry": "module.py:make"}, source=None, **facts)


FOLDED = {
    "a size as a divisor": "return x.cumsum(-1) / int(x.shape[-1])",
    "a size as a float": "return x * float(x.shape[-1])",
    "a loop over a size": "return sum(x[..., i] for i in range(x.shape[-1])).unsqueeze(-1)",
    "a branch on a size": "return x * 2 if x.shape[-1] < 8 else x * 3",
    "a maximum": "return x[..., : int(x.shape[-1])].amax(-1, keepdim=True)",
    "a minimum": "return x[..., : int(x.shape[-1])].amin(-1, keepdim=True)",
    "any": "return (x[..., : int(x.shape[-1])] > 2).any(-1, keepdim=True).float()",
    "a range": "return x.sum(-1, keepdim=True) * torch.arange(int(x.shape[-1])).sum()",
}


@pytest.mark.parametrize("max_batch", [0, 4])
@pytest.mark.parametrize("body", FOLDED.values(), ids=FOLDED)
def test_a_traced_module_that_folded_a_size_is_rejected(tmp_path, body, max_batch):
    told = error_of(lambda: traced(tmp_path, body, batching={"max_batch": max_batch}), tmp_path)
    assert "model.yaml:" in told
    assert "tensors.x.shape: the traced module is wrong at sizes not in the test inputs" in told
    assert "of dimension 0 of x, " in told
    assert "size 5 is a constant in the graph" in told
    assert "declare the size fixed: `tensors: {x: {shape: [...]}}` with size 5 at dimension 0" in told
    assert "widen" not in told


def test_a_folded_size_that_fails_elsewhere_is_rejected(tmp_path):
    told = error_of(lambda: traced(tmp_path, "return x.reshape([int(n) for n in x.shape]) * 2"), tmp_path)
    assert "it fails (" in told
    assert "size 5 is a constant in the graph" in told


def test_a_module_wrong_at_every_size_is_not_reported_as_size_dependent(tmp_path):
    told = error_of(lambda: traced(tmp_path, "return x + torch.rand_like(x)"), tmp_path)
    assert "the exported graph differs from the framework" in told


@pytest.mark.parametrize("body", FOLDED.values(), ids=FOLDED)
def test_a_single_value_requires_a_second_size(tmp_path, body):
    """Copies of one value do not show which of them the model reads."""
    one = {"inputs": {"x": [0.5]}}
    told = error_of(lambda: traced(tmp_path / "a", body, test_inputs=[one]), tmp_path / "a")
    assert "dimension 0 of x varies, but every test input has size 1" in told
    assert "add a test input with a second size" in told
    told = error_of(lambda: traced(tmp_path / "b", body, test_inputs=[one, *FIVE]), tmp_path / "b")
    assert "of dimension 0 of x, " in told


@pytest.mark.parametrize("dimension", [0, 1])
def test_each_dimension_is_tested_separately(tmp_path, dimension):
    """If both dimensions have size 3, dividing by one equals dividing by the other."""
    rows = [{"inputs": {"x": [[1.0, 2.0, 3.0]] * 3}}]
    varies = {"x": {"datatype": "FP32", "shape": [-1, -1]}}
    body = f"return x * float(x.shape[{dimension}])"
    told = error_of(lambda: traced(tmp_path, body, test_inputs=rows, tensors=varies), tmp_path)
    assert f"dimension {dimension} of x" in told


def test_a_module_that_is_right_at_every_size_has_variable_outputs(tmp_path):
    written = write_repository(traced(tmp_path, "return x.cumsum(-1) / x.shape[-1] ** 0"), tmp_path / "work")
    assert tensors(written) == [("x", "FP32", (-1,)), ("OUTPUT__0", "FP32", (-1,))]
    assert written.unverified == ()
    assert [case.origin for case in written.cases] == ["framework"]


def test_coupled_sizes_are_changed_together(tmp_path):
    varies = VARIES | {"mask": {"datatype": "FP32", "shape": [-1]}}
    rows = [{"inputs": {"x": [1.0, 2.0, 3.0], "mask": [1.0, 1.0, 0.0]}}]
    body = "return (x * mask).sum(-1, keepdim=True) / {}"
    right, wrong = body.format("mask.sum(-1, keepdim=True)"), body.format("float(mask.shape[-1])")
    facts: dict[str, Any] = {"more": ", mask", "tensors": varies, "test_inputs": rows}
    assert write_repository(traced(tmp_path / "a", right, **facts), tmp_path / "a/work").cases
    told = error_of(lambda: traced(tmp_path / "b", wrong, **facts), tmp_path / "b")
    assert "of dimension 0 of x and dimension 0 of mask" in told


def test_a_second_size_is_required_if_none_can_be_derived(tmp_path):
    varies = VARIES | {"pairs": {"datatype": "FP32", "shape": [-1]}}
    body = "return x.sum(-1) + pairs.reshape(-1, 2)[: x.shape[-1]].sum() + (x + pairs[::2]).sum()"
    facts: dict[str, Any] = {"more": ", pairs", "tensors": varies}
    one = {"inputs": {"x": [1.0, 2.0, 3.0], "pairs": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}}
    two = {"inputs": {"x": [1.0, 2.0], "pairs": [1.0, 2.0, 3.0, 4.0]}}
    told = error_of(lambda: traced(tmp_path / "a", body, test_inputs=[one], **facts), tmp_path / "a")
    assert "tensors.pairs.shape: dimension 0 of pairs varies, but every test input has size 6" in told
    assert "the model fails at sizes 7" in told
    assert "add a test input with a second size" in told
    assert write_repository(
        traced(tmp_path / "b", body, test_inputs=[one, two], **facts), tmp_path / "b/work"
    ).cases


@pytest.mark.parametrize("body", ["return x * 2 if x.shape[0] < 3 else x * 3", "return x - x.amax(0)"])
def test_a_module_that_depends_on_the_batch_is_rejected(tmp_path, body):
    """One test input alone does not show it."""
    told = error_of(lambda: traced(tmp_path, body, tensors={}, batching={"max_batch": 4}), tmp_path)
    assert "batching.max_batch: the traced module: a batch of" in told
    assert "and its rows alone get different answers: OUTPUT__0 is" in told


def save_folded_onnx(file: Path, *, folded: str) -> None:
    """y = x / 5, or x plus five numbers, or x in rows of five."""
    from onnx import TensorProto, helper, numpy_helper, save

    shape = numpy_helper.from_array(np.array([-1, 5], np.int64), "shape")
    five = numpy_helper.from_array(np.array([5.0], np.float32), "five")
    fives = numpy_helper.from_array(np.arange(5, dtype=np.float32), "fives")
    nodes = {"divide": ("Div", "five"), "add": ("Add", "fives"), "reshape": ("Reshape", "shape")}
    operator, constant = nodes[folded]
    node = helper.make_node(operator, ["x", constant], ["y"])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "n"])],
        [shape, five, fives],
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(file))


def given(folder: Path, *rows: dict[str, Any], folded: str = "divide", **more: Any) -> WrittenRepository:
    save_folded_onnx(folder / "weights/model.onnx", folded=folded)
    return write_repository(
        write_supplied(folder, {"kind": "onnx"}, test_inputs=list(rows), **more), folder / "work"
    )


def test_a_supplied_graph_with_one_working_size_is_rejected(tmp_path):
    with pytest.raises(InvalidFilesError) as caught:
        given(tmp_path, *FIVE, folded="add")
    told = str(caught.value)
    assert "model.yaml:6: test_inputs: dimension 0 of x varies, but every test input has size 5" in told
    assert "the model fails at sizes 6, 10, 4" in told
    assert "every test input has size 5" in told
    assert "add a test input with a second size, or declare the size fixed" in told
    fixed = given(tmp_path / "b", *FIVE, folded="add", tensors={"x": {"shape": [5]}})
    assert tensors(fixed)[0] == ("x", "FP32", (5,))


def test_a_supplied_graph_with_undeclared_output_shapes_is_rejected(tmp_path):
    with pytest.raises(InvalidFilesError) as caught:
        given(tmp_path, *FIVE, folded="reshape")
    told = str(caught.value)
    assert "at size 10 of dimension 0 of x, y has shape [2, 5]; the graph declares [1, -1]" in told


def row(size: int, *, right: bool) -> dict[str, Any]:
    values = [float(number) for number in range(1, size + 1)]
    return {"inputs": {"x": values}} | ({"outputs": {"y": [value / 5 for value in values]}} if right else {})


@pytest.mark.parametrize(
    ("rows", "unverified"),
    [
        ([row(5, right=False)], ("compared with itself only: no test input has expected outputs for y",)),
        ([row(5, right=True)], ("expected outputs cover only size 5 of dimension 0 of x",)),
        (
            [row(5, right=True), row(9, right=False)],
            ("expected outputs cover only size 5 of dimension 0 of x",),
        ),
        ([row(5, right=True), row(9, right=True)], ()),
    ],
)
def test_evidence_that_verifies_a_supplied_graph(tmp_path, rows, unverified):
    written = given(tmp_path, *rows)
    assert written.unverified == unverified
    assert [case.origin for case in written.cases] == [
        "given" if "outputs" in one else "itself" for one in rows
    ]


def test_a_graph_whose_rows_depend_on_each_other_has_no_batch_dimension(tmp_path):
    from onnx import TensorProto, helper, save

    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], axes=[0], keepdims=1),
        helper.make_node("Sub", ["x", "most"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, ["b", 3])], [value("y", TensorProto.FLOAT, ["b", 3])]
    )
    (tmp_path / "weights").mkdir()
    opset = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opset, ir_version=8), str(tmp_path / "weights/model.onnx"))
    tests = [{"inputs": {"x": [1.0, 2.0, 3.5]}}]
    told = error_of(lambda: write_supplied(tmp_path, {"kind": "onnx"}, test_inputs=tests), tmp_path)
    assert "batching.max_batch: the graph: a batch of 2 and its rows alone get different answers" in told


def test_a_folded_size_is_found_at_any_position_of_the_largest_value(tmp_path: Path) -> None:
    body = "return x[..., : int(x.shape[-1])].amax(-1, keepdim=True)"
    for place in range(3):
        rows = [{"inputs": {"x": [9.0 if place == other else float(other) for other in range(3)]}}]
        folder = tmp_path / str(place)
        told = error_of(lambda rows=rows, at=folder: traced(at, body, test_inputs=rows), folder)
        assert "size 3 is a constant in the graph" in told


def test_right_answers_at_a_second_size_find_a_folded_one(tmp_path: Path) -> None:
    from model_build.errors import ParityError

    nine = {"inputs": {"x": [float(n) for n in range(9)]}, "outputs": {"y": [n / 9 for n in range(9)]}}
    with pytest.raises(ParityError, match="test input 2"):
        given(tmp_path, row(5, right=True), nine)


def test_graph_of_fixed_sizes_needs_no_second_size(tmp_path: Path) -> None:
    save_onnx(tmp_path / "weights/model.onnx")
    right = [{"inputs": {"x": [0.0, 0.0, 0.0]}, "outputs": {"y": [0.0, 0.0], "best": 0}}]
    written = write_repository(
        write_supplied(tmp_path, {"kind": "onnx"}, test_inputs=right), tmp_path / "work"
    )
    assert written.unverified == ()
