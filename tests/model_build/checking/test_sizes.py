"""Sizes that tracing turned into constants, and the proof of user-supplied graphs."""

from pathlib import Path
from typing import Any

import pytest

from model_build.data import WrittenRepository
from model_build.errors import ParityError
from tests.model_build.graph_texts import save_graph
from tests.model_build.supplied_models import save_onnx, write_supplied
from tests.model_build.written_repositories import tensors, violation_of, write_repository
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
VARIABLE = {"datatype": "FP32", "shape": [-1]}
VARIES = {"x": VARIABLE}
FIVE = [{"inputs": {"x": [1.0, 2.0, 3.5, -1.0, 0.5]}}]


def traced(folder: Path, body: str, *, more: str = "", **changes: Any) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "module.py").write_text(ENTRY.format(body=body, more=more))
    facts: dict[str, Any] = {"test_inputs": FIVE, "tensors": VARIES, "batching": {"max_batch": 0}} | changes
    return write_supplied(folder, {"kind": "torchscript", "entry": "module.py:make"}, source=None, **facts)


FOLDED = {
    "a size as a divisor": "return x.cumsum(-1) / int(x.shape[-1])",
    "a loop over a size": "return sum(x[..., i] for i in range(x.shape[-1])).unsqueeze(-1)",
    "a branch on a size": "return x * 2 if x.shape[-1] < 8 else x * 3",
    "a maximum": "return x[..., : int(x.shape[-1])].amax(-1, keepdim=True)",
    "any": "return (x[..., : int(x.shape[-1])] > 2).any(-1, keepdim=True).float()",
}


@pytest.mark.parametrize(
    ("body", "max_batch"), [*((body, 0) for body in FOLDED.values()), (FOLDED["any"], 4)]
)
def test_a_traced_module_that_folded_a_size_is_rejected(tmp_path, body, max_batch):
    violation = violation_of(traced(tmp_path, body, batching={"max_batch": max_batch}), tmp_path)
    assert violation.field == "tensors.x.shape"
    assert violation.line
    assert "of dimension 0 of x, " in violation.message
    assert "size 5 is a constant" in violation.message
    assert "size 5 at dimension 0" in str(violation.remedy)


def test_a_folded_size_that_fails_elsewhere_is_rejected(tmp_path):
    violation = violation_of(traced(tmp_path, "return x.reshape([int(n) for n in x.shape]) * 2"), tmp_path)
    assert "it fails (" in violation.message
    assert "size 5 is a constant" in violation.message


def test_a_module_wrong_at_every_size_is_not_reported_as_size_dependent(tmp_path):
    with pytest.raises(ParityError):
        write_repository(traced(tmp_path, "return x + torch.rand_like(x)"), tmp_path / "work")


@pytest.mark.parametrize("body", [FOLDED["a size as a divisor"], FOLDED["a maximum"]])
def test_a_single_value_requires_a_second_size(tmp_path, body):
    """Copies of one value do not show which of them the model reads."""
    single = {"inputs": {"x": [0.5]}}
    violation = violation_of(traced(tmp_path / "a", body, test_inputs=[single]), tmp_path / "a")
    assert "0 of x varies" in violation.message
    assert "second size" in str(violation.remedy)
    violation = violation_of(traced(tmp_path / "b", body, test_inputs=[single, *FIVE]), tmp_path / "b")
    assert "of dimension 0 of x, " in violation.message


@pytest.mark.parametrize("dimension", [0, 1])
def test_each_dimension_is_tested_separately(tmp_path, dimension):
    """If both dimensions have size 3, dividing by one equals dividing by the other."""
    rows = [{"inputs": {"x": [[1.0, 2.0, 3.0]] * 3}}]
    varies = {"x": {"datatype": "FP32", "shape": [-1, -1]}}
    body = f"return x * float(x.shape[{dimension}])"
    violation = violation_of(traced(tmp_path, body, test_inputs=rows, tensors=varies), tmp_path)
    assert f"dimension {dimension} of x" in violation.message


def test_a_module_that_is_right_at_every_size_has_variable_outputs(tmp_path):
    repository = write_repository(
        traced(tmp_path, "return x.cumsum(-1) / x.shape[-1] ** 0"), tmp_path / "work"
    )
    assert tensors(repository) == [("x", "FP32", (-1,)), ("OUTPUT__0", "FP32", (-1,))]
    assert repository.unverified == ()
    assert [case.origin for case in repository.cases] == ["framework"]


def test_coupled_sizes_are_changed_together(tmp_path):
    varies = {"x": VARIABLE, "mask": VARIABLE}
    rows = [{"inputs": {"x": [1.0, 2.0, 3.0], "mask": [1.0, 1.0, 0.0]}}]
    body = "return (x * mask).sum(-1, keepdim=True) / {}"
    right, wrong = body.format("mask.sum(-1, keepdim=True)"), body.format("float(mask.shape[-1])")
    facts: dict[str, Any] = {"more": ", mask", "tensors": varies, "test_inputs": rows}
    assert write_repository(traced(tmp_path / "a", right, **facts), tmp_path / "a/work").cases
    violation = violation_of(traced(tmp_path / "b", wrong, **facts), tmp_path / "b")
    assert "0 of mask" in violation.message


def test_a_second_size_is_required_if_none_can_be_derived(tmp_path):
    varies = {"x": VARIABLE, "pairs": VARIABLE}
    body = "return x.sum(-1) + pairs.reshape(-1, 2)[: x.shape[-1]].sum() + (x + pairs[::2]).sum()"
    facts: dict[str, Any] = {"more": ", pairs", "tensors": varies}
    rows = [
        {"inputs": {"x": [1.0, 2.0, 3.0], "pairs": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}},
        {"inputs": {"x": [1.0, 2.0], "pairs": [1.0, 2.0, 3.0, 4.0]}},
    ]
    violation = violation_of(traced(tmp_path / "a", body, test_inputs=rows[:1], **facts), tmp_path / "a")
    assert violation.field == "tensors.pairs.shape"
    assert "fails at sizes 7" in violation.message
    assert "second size" in str(violation.remedy)
    assert write_repository(
        traced(tmp_path / "b", body, test_inputs=rows, **facts), tmp_path / "b/work"
    ).cases


@pytest.mark.parametrize("body", ["return x * 2 if x.shape[0] < 3 else x * 3", "return x - x.amax(0)"])
def test_a_module_that_depends_on_the_batch_is_rejected(tmp_path, body):
    """One test input alone does not show it."""
    violation = violation_of(traced(tmp_path, body, tensors={}, batching={"max_batch": 4}), tmp_path)
    assert violation.field == "batching.max_batch"
    assert "OUTPUT__0 is" in violation.message


FOLDED_NODES = {"divide": "Div(x, five)", "add": "Add(x, fives)", "reshape": "Reshape(x, shape)"}


def given(folder: Path, *rows: dict[str, Any], folded: str = "divide", **more: Any) -> WrittenRepository:
    """Write the repository of y = x / 5, or x plus five numbers, or x in rows of five."""
    text = f"(float[batch, n] x) => (float[batch, n] y) {{ y = {FOLDED_NODES[folded]} }}"
    weights = {"shape": [-1, 5], "five": [5.0], "fives": [0.0, 1.0, 2.0, 3.0, 4.0]}
    save_graph(folder / "weights/model.onnx", text, **weights)
    return write_repository(
        write_supplied(folder, {"kind": "onnx"}, test_inputs=list(rows), **more), folder / "work"
    )


def test_a_supplied_graph_with_one_working_size_is_rejected(tmp_path):
    with pytest.raises(InvalidFilesError) as caught:
        given(tmp_path, *FIVE, folded="add")
    (violation,) = caught.value.violations
    assert (violation.line, violation.field) == (6, "test_inputs")
    assert "fails at sizes 6, 10, 4" in violation.message
    assert "second size" in str(violation.remedy)
    fixed = given(tmp_path / "b", *FIVE, folded="add", tensors={"x": {"shape": [5]}})
    assert tensors(fixed)[0] == ("x", "FP32", (5,))


def test_a_supplied_graph_with_undeclared_output_shapes_is_rejected(tmp_path):
    with pytest.raises(InvalidFilesError, match=r"size 10 .*\[2, 5\]; .*\[1, -1\]"):
        given(tmp_path, *FIVE, folded="reshape")


def row(size: int, *, right: bool) -> dict[str, Any]:
    values = [float(number) for number in range(1, size + 1)]
    return {"inputs": {"x": values}} | ({"outputs": {"y": [value / 5 for value in values]}} if right else {})


@pytest.mark.parametrize(
    ("rows", "unverified"),
    [
        ([row(5, right=False)], ["with itself"]),
        ([row(5, right=True)], ["size 5"]),
        ([row(5, right=True), row(9, right=False)], ["size 5"]),
        ([row(5, right=True), row(9, right=True)], []),
    ],
)
def test_evidence_that_verifies_a_supplied_graph(tmp_path, rows, unverified):
    repository = given(tmp_path, *rows)
    assert all(value in reason for value, reason in zip(unverified, repository.unverified, strict=True))
    origins = ["given" if "outputs" in test_input else "itself" for test_input in rows]
    assert [case.origin for case in repository.cases] == origins


def test_a_graph_whose_rows_depend_on_each_other_has_no_batch_dimension(tmp_path):
    text = """(float[b, 3] x) => (float[b, 3] y) {
        most = ReduceMax<axes = [0], keepdims = 1>(x)
        y = Sub(x, most)
    }"""
    save_graph(tmp_path / "weights/model.onnx", text)
    tests = [{"inputs": {"x": [1.0, 2.0, 3.5]}}]
    violation = violation_of(write_supplied(tmp_path, {"kind": "onnx"}, test_inputs=tests), tmp_path)
    assert violation.field == "batching.max_batch"
    assert "a batch of 2" in violation.message


@pytest.mark.parametrize("values", [[9.0, 1.0, 2.0], [0.0, 9.0, 2.0], [0.0, 1.0, 9.0]])
def test_a_folded_size_is_found_at_any_position_of_the_largest_value(tmp_path, values):
    model = traced(tmp_path, FOLDED["a maximum"], test_inputs=[{"inputs": {"x": values}}])
    assert "size 3 is" in violation_of(model, tmp_path).message


def test_right_answers_at_a_second_size_find_a_folded_one(tmp_path):
    nine = {"inputs": {"x": [float(n) for n in range(9)]}, "outputs": {"y": [n / 9 for n in range(9)]}}
    with pytest.raises(ParityError, match="test input 2"):
        given(tmp_path, row(5, right=True), nine)


def test_graph_of_fixed_sizes_needs_no_second_size(tmp_path):
    save_onnx(tmp_path / "weights/model.onnx")
    right = [{"inputs": {"x": [0.0, 0.0, 0.0]}, "outputs": {"y": [0.0, 0.0], "best": 0}}]
    repository = write_repository(
        write_supplied(tmp_path, {"kind": "onnx"}, test_inputs=right), tmp_path / "work"
    )
    assert repository.unverified == ()
