"""Test inputs as arrays, and tensors of model.yaml, with every error at its line."""

import resource
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.checking.running_reference import ask_reference
from model_build.inputs.narrowing import narrow_tensors, tensors_of_rows
from model_build.inputs.rows import MAX_EXPANDED_BYTES, read_rows
from tests.model_build.supplied_models import write_supplied
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.manifests import TensorSpec
from tritonstack.files.sources.model_hashes import model_hash

X = TensorSpec(name="x", datatype="FP32", shape=(2,))
IDS = TensorSpec(name="ids", datatype="INT32", shape=(-1,))
NAMES = TensorSpec(name="names", datatype="BYTES", shape=(-1,))
Y = TensorSpec(name="y", datatype="FP32", shape=(-1, 2))


def model(folder: Path, text: str, **more: Any) -> Document[ModelSpec]:
    """Load a model whose file ends in `text`, starting at line 6."""
    return write_supplied(folder, {"kind": "onnx"}, extra=text, **more)


def error_of(document: Document[ModelSpec], *specs: TensorSpec) -> str:
    with pytest.raises(InvalidFilesError) as caught:
        read_rows(document, specs or None)
    return str(caught.value)


def test_inline_values_take_the_models_types(tmp_path):
    text = "test_inputs:\n- inputs: {x: [1, 2.5], ids: [3, 4, 5], names: [a, bc]}\n"
    (row,) = read_rows(model(tmp_path, text), [X, IDS, NAMES])
    assert row.name == "test input 1"
    assert [array.dtype for array in row.inputs.values()] == [np.float32, np.int32, np.object_]
    case = row.case({}, batches=True)
    assert [array.shape for array in case.inputs.values()] == [(1, 2), (1, 3), (1, 2)]
    assert row.case({}, batches=False).inputs["x"].tolist() == [1.0, 2.5]


def test_without_model_metadata_values_have_their_natural_types(tmp_path):
    text = "test_inputs:\n- inputs: {a: [1, 2], b: [1, 2.5], c: [true], d: [[text]], e: [1]}\n"
    rows = read_rows(model(tmp_path, text + "tensors: {e: {datatype: FP16}}\n"))
    types = {name: array.dtype for name, array in rows[0].inputs.items()}
    assert types == {"a": np.int64, "b": np.float32, "c": np.bool_, "d": np.object_, "e": np.float16}


BF16 = TensorSpec(name="x", datatype="BF16", shape=(1,))


@pytest.mark.parametrize(
    ("value", "spec", "message"),
    [
        ("[1.0, [2.0]]", X, "different lengths"),
        ("[[1.0], [2.0, 3.0]]", X, "different lengths"),
        ("[1.0, text]", X, "'text' is not a number"),
        ("[1.0, true]", X, "True is not a number"),
        ("[1.0, 1.0e+39]", X, "1e+39 is not a number"),
        ("[1.0]", X, "shape [1]; the model takes [2]"),
        ("[1.0, 2.0]", X.model_copy(update={"shape": (1,)}), "shape [2]; the model takes [1]"),
        ("[[1.0, 2.0]]", X, "without the batch dimension"),
        ("[!!binary AAEC, !!binary AAEC]", X, "3 bytes"),
        ("[1.0]", BF16, "BF16"),
        ("[1, a]", None, "mixed types"),
    ],
)
def test_values_that_do_not_fit_are_rejected(tmp_path, value, spec, message):
    document = model(tmp_path, f"test_inputs:\n- inputs:\n    x: {value}\n")
    error = error_of(document, *([spec] if spec else []))
    assert message in error
    assert "model.yaml:8: test_inputs.0.inputs.x: " in error


@pytest.mark.parametrize("datatype", ["FP16", "FP32", "FP64"])
def test_nan_is_a_value_of_float_inputs(tmp_path, datatype):
    spec = X.model_copy(update={"datatype": datatype})
    (row,) = read_rows(model(tmp_path, "test_inputs:\n- inputs: {x: [1.0, .nan]}\n"), [spec])
    np.testing.assert_array_equal(row.inputs["x"], np.array([1.0, np.nan], row.inputs["x"].dtype))
    (untyped,) = read_rows(model(tmp_path, "test_inputs:\n- inputs: {x: [.nan]}\n"))
    assert untyped.inputs["x"].dtype == np.float32


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("inputs: {x: [1.0, .nan], ids: [.nan]}", "inputs.ids", "nan is not"),
        ("inputs: {x: [1.0, 2.0], ids: [1], names: [.nan]}", "inputs.names", "nan is not text"),
        ("inputs: {x: [1.0, 2.0]}\n  outputs: {y: [.nan]}", "outputs.y", ".nan is allowed"),
        ("inputs: {x: [1.0, null]}", "inputs.x", "null is not a value"),
        ("random: {below: .nan}", "random.below", "expected an integer"),
    ],
)
def test_nan_is_valid_only_for_floats(tmp_path, text, field, message):
    with pytest.raises(InvalidFilesError) as caught:
        read_rows(model(tmp_path, f"test_inputs:\n- {text}\n"), [X, IDS, NAMES][: 1 + text.count(",")])
    assert f"test_inputs.0.{field}: {message}" in str(caught.value)
    assert "help: " in str(caught.value)


def test_nan_infinity_and_zero_are_different_models(tmp_path):
    hashes = set()
    for value in (".nan", ".inf", "-.inf", "0.0", "null"):
        (tmp_path / "m").mkdir(exist_ok=True)
        document = model(tmp_path / "m", f"test_inputs:\n- inputs: {{x: [{value}]}}\n")
        hashes.add(model_hash("tiny", {"tiny": document}))
    assert len(hashes) == 5


@pytest.mark.parametrize(("value", "fits"), [(-1, False), (0, True), (255, True), (256, False), (1.0, False)])
def test_integers_must_fit_their_type(tmp_path, value, fits):
    document = model(tmp_path, f"test_inputs:\n- inputs: {{x: [{value}]}}\n")
    spec = TensorSpec(name="x", datatype="UINT8", shape=(1,))
    if fits:
        assert read_rows(document, [spec])[0].inputs["x"].tolist() == [value]
    else:
        assert "UINT8" in error_of(document, spec)


def test_unknown_and_missing_names(tmp_path):
    error = error_of(model(tmp_path, "test_inputs:\n- inputs:\n    idz: [1]\n"), X, IDS)
    assert "model.yaml:8: test_inputs.0.inputs.idz: " in error
    assert "'ids'?" in error
    assert "also takes x, ids" in error


def test_rows_of_a_file(tmp_path):
    np.savez(tmp_path / "rows.npz", x=np.ones((3, 2), np.float32), names=np.array([["a"], ["b"], ["c"]]))
    document = model(tmp_path, "test_inputs:\n- file: rows.npz\n")
    rows = read_rows(document, [X, NAMES])
    assert [row.name for row in rows] == [f"test input 1, row {number}" for number in (1, 2, 3)]
    assert rows[2].inputs["names"].tolist() == ["c"]
    assert rows[2].inputs["names"].dtype == np.object_


def test_right_answers_of_a_file(tmp_path):
    np.savez(
        tmp_path / "rows.npz",
        **{"x": np.ones((1, 2), np.float32), "outputs/y": np.zeros((1, 1, 2), np.float32)},
    )
    (row,) = read_rows(model(tmp_path, "test_inputs:\n- file: rows.npz\n"), [X], [Y])
    assert row.case({"y": np.ones((1, 1, 2))}, batches=True).expected["y"].tolist() == [[[0.0, 0.0]]]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.ones((3, 2))}, "x is float64; the model takes FP32; save it as float32"),
        ({"x": np.ones((3, 3), np.float32)}, "x has shape [3]; the model takes [2]"),
        ({"x": np.ones((0, 2), np.float32)}, "the arrays have different row counts:"),
        ({"x": np.float32(1)}, "the arrays have different row counts:"),
        ({"x": np.array([[object()]])}, "rows.npz is not"),
        ({"y": np.ones((3, 2), np.float32)}, "unknown tensor; the model has x"),
        ({"x": np.ones((1, 2), np.complex64)}, "x is complex64"),
    ],
)
def test_files_with_wrong_arrays_are_rejected(tmp_path, arrays, message):
    np.savez(tmp_path / "rows.npz", allow_pickle=True, **arrays)
    error = error_of(model(tmp_path, "test_inputs:\n- file: rows.npz\n"), X)
    for part in message.split("; "):
        assert part in error
    assert "model.yaml:7: test_inputs.0.file" in error


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x05\x06" + bytes(18)])
def test_a_file_that_is_not_an_archive(tmp_path, content):
    (tmp_path / "rows.npz").write_bytes(content)
    assert "test_inputs.0.file" in error_of(model(tmp_path, "test_inputs:\n- file: rows.npz\n"), X)


def test_random_numbers_are_reproducible(tmp_path):
    first, second = "{rows: 3, sizes: {ids: [7]}, below: 9}", "{rows: 1, sizes: {ids: [2]}}"
    document = model(tmp_path, f"test_inputs:\n- random: {first}\n- random: {second}\n")
    rows = read_rows(document, [X, IDS])
    again = read_rows(document, [X, IDS])
    assert len(rows) == 4
    assert rows[0].inputs["ids"].shape == (7,)
    assert all(row.inputs["ids"].max() < 9 for row in rows[:3])
    assert not np.array_equal(rows[0].inputs["x"], rows[3].inputs["x"])
    for row, other in zip(rows, again, strict=True):
        np.testing.assert_array_equal(row.inputs["x"], other.inputs["x"])


@pytest.mark.parametrize(
    ("options", "specs", "message"),
    [
        ("{}", [IDS], "ids has variable sizes: [-1]; set `sizes: {ids: [...]}`"),
        ("{}", [NAMES], "names takes BYTES"),
        ("{sizes: {id: [3]}}", [IDS], "the model has ids"),
        ("{sizes: {x: [3]}}", [X], "x has shape [3]; the model takes [2]"),
        ("{}", [], "does not declare its inputs"),
    ],
)
def test_invalid_random_number_requests(tmp_path, options, specs, message):
    error = error_of(model(tmp_path, f"test_inputs:\n- random: {options}\n"), *specs)
    assert [part for part in message.split("; ") if part not in error] == []


def test_rows_give_tensors_their_common_shape(tmp_path):
    text = "test_inputs:\n- inputs: {x: [[1.0], [2.0]], n: 1}\n- inputs: {x: [[1.0]], n: 2}\n"
    document = model(tmp_path, text)
    assert tensors_of_rows(document, read_rows(document)) == (
        TensorSpec(name="x", datatype="FP32", shape=(-1, 1)),
        TensorSpec(name="n", datatype="INT64", shape=()),
    )
    document = model(tmp_path, "test_inputs:\n- inputs: {x: [1.5]}\ntensors: {x: {shape: [-1]}}\n")
    assert tensors_of_rows(document, read_rows(document))[0].shape == (-1,), "dynamic on purpose"


@pytest.mark.parametrize(
    ("second", "tensors", "message"),
    [
        ("{x: [1]}", "{}", "x has several types"),
        ("{x: [[1.0]]}", "{}", "x has different ranks"),
        ("{y: [1.0]}", "{}", "x is missing"),
        ("{x: [1.0], y: [1.0]}", "{}", "y is missing in test input 1"),
        ("{x: [1.0]}", "{x: {shape: [2]}}", "[2] does not match test input 1: [1]"),
    ],
)
def test_rows_that_contradict_each_other(tmp_path, second, tensors, message):
    text = f"test_inputs:\n- inputs: {{x: [1.5]}}\n- inputs: {second}\ntensors: {tensors}\n"
    document = model(tmp_path, text)
    rows = read_rows(document)
    with pytest.raises(InvalidFilesError) as caught:
        tensors_of_rows(document, rows)
    assert message in str(caught.value)


def test_model_yaml_narrows_dynamic_sizes_of_the_graph(tmp_path):
    text = "tensors:\n  ids: {shape: [8]}\n  y: {labels: [low, high]}\n"
    document = model(tmp_path, text, test_inputs=[{"random": {}}])
    inputs, outputs = narrow_tensors(document, [IDS], [Y])
    assert inputs[0].shape == (8,)
    assert outputs[0].labels == ("low", "high")
    assert outputs[0].shape == (-1, 2)


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("tensors: {idz: {shape: [8]}}", "tensors.idz", "'ids'?"),
        ("tensors: {ids: {datatype: INT64}}", "tensors.ids.datatype", "INT32 in the model, got INT64"),
        ("tensors: {y: {shape: [-1, 3]}}", "tensors.y.shape", "[-1, 3] contradicts"),
        ("tensors: {y: {shape: [2]}}", "tensors.y.shape", "[2] contradicts"),
        ("tensors: {y: {labels: [a, b, c]}}", "tensors.y.labels", "2 labels for y, got 3"),
        ("tensors: {ids: {labels: [a]}}", "tensors.ids.labels", "is an input"),
        ("accept: {outputs: {z: {cosine: 0.9}}}", "accept.outputs.z", "the model has y"),
    ],
)
def test_model_yaml_that_contradicts_the_graph(tmp_path, text, field, message):
    document = model(tmp_path, text + "\n", test_inputs=[{"random": {}}])
    with pytest.raises(InvalidFilesError) as caught:
        narrow_tensors(document, [IDS], [Y])
    assert message in str(caught.value)
    assert f": {field}: " in str(caught.value)


def test_an_archive_that_expands_without_bounds_is_not_unpacked(tmp_path):
    header = {"descr": "<f4", "fortran_order": False, "shape": (2**28 + 1, 1)}
    with (
        zipfile.ZipFile(tmp_path / "rows.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as stream,
    ):
        np.lib.format.write_array_header_1_0(stream, header)
        for _ in range(1025):
            stream.write(bytes(2**20))
    assert (tmp_path / "rows.npz").stat().st_size < 2_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert f"{MAX_EXPANDED_BYTES:,}" in error_of(model(tmp_path, "test_inputs:\n- file: rows.npz\n"), X)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_array_larger_than_memory_is_rejected(tmp_path):
    header = {"descr": "<f4", "fortran_order": False, "shape": (2**50, 2)}
    with zipfile.ZipFile(tmp_path / "rows.npz", "w") as archive, archive.open("x.npy", "w") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
    assert "rows.npz" in error_of(model(tmp_path, "test_inputs:\n- file: rows.npz\n"), X)


SOUND = b"RIFF\x80\x00\xff\x00"


@pytest.mark.parametrize(
    "value",
    [
        "[{file: clip.wav}]",
        "[{base64: UklGRoAA/wA=}]",
        "[!!binary UklGRoAA/wA=]",
        "\n    - !!binary |\n      UklGRoAA\n      /wA=",
    ],
)
def test_bytes_are_files_or_base64(value, tmp_path):
    (tmp_path / "clip.wav").write_bytes(SOUND)
    document = model(tmp_path, f"test_inputs:\n- inputs:\n    names: {value}\n")
    (row,) = read_rows(document, [NAMES])
    assert row.inputs["names"].tolist() == [SOUND]
    assert ("clip.wav" in document.record.own_files) == ("file" in value)
    before = model_hash("tiny", {"tiny": document})
    if "file" in value:
        (tmp_path / "clip.wav").write_bytes(SOUND[:-1])
        assert model_hash("tiny", {"tiny": document}) != before


def test_npz_of_bytes_and_of_objects(tmp_path):
    document = model(tmp_path, "test_inputs:\n- file: rows.npz\n")
    np.savez(tmp_path / "rows.npz", names=np.array([[b"RIFF\x80"], [b"a"]], dtype="S"))
    assert [row.inputs["names"].tolist() for row in read_rows(document, [NAMES])] == [[b"RIFF\x80"], [b"a"]]
    np.savez(tmp_path / "rows.npz", names=np.array([["a"], ["b"]], dtype="S"))
    assert [row.inputs["names"].tolist() for row in read_rows(document, [NAMES])] == [["a"], ["b"]]
    np.savez(tmp_path / "rows.npz", names=np.array([[SOUND]], dtype=object), allow_pickle=True)
    assert "inputs: {<name>: [{file: <file>}]}" in error_of(document, NAMES)


@pytest.mark.parametrize(
    "value",
    ["{file: ../a}", "{file: /etc/a}", "{base64: '?'}", "{url: x}", "{file: a, base64: AA==}", "{}"],
)
def test_bytes_that_are_no_file_of_the_model_or_no_base64(value, tmp_path):
    with pytest.raises(InvalidFilesError) as caught:
        model(tmp_path, f"test_inputs:\n- inputs:\n    names: [{value}]\n")
    (violation,) = caught.value.violations
    assert (violation.line, violation.field) == (7, "test_inputs.0")


def test_a_reference_gets_bytes_as_they_are(tmp_path):
    (tmp_path / "ref.py").write_text(
        "def answer(request):\n"
        "    return {'size': [[len(request['names'][0, 0])]], 'same': request['names']}\n"
    )
    request = {"names": np.array([[SOUND]], dtype=object), "text": np.array([["é"]], dtype=object)}
    ((answer,),) = ask_reference(tmp_path, "ref.py:answer", [request])
    assert answer["size"].tolist() == [[len(SOUND)]]
    assert answer["same"].tolist() == [[SOUND]]


def test_a_reference_runs_in_a_process_without_the_build(tmp_path):
    """Its environment may have NumPy alone."""
    (tmp_path / "ref.py").write_text(
        "import sys\n\n\ndef answer(request):\n    return {'imported': ['model_build' in sys.modules]}\n"
    )
    ((answer,),) = ask_reference(tmp_path, "ref.py:answer", [{"x": np.zeros(1)}])
    assert answer["imported"].tolist() == [False]
