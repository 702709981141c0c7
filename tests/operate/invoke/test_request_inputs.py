"""Inputs of `tritonstack invoke` as tensors: types, shapes, files, and what is rejected."""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.manifests import manifest
from tritonstack.base.errors import UsageError
from tritonstack.files.records.manifests import Manifest, TensorSpec
from tritonstack.operate.invoke.request_inputs import GivenInputs, read_inputs


def model(*specs: tuple[str, str, tuple[int, ...]], max_batch: int = 8) -> Manifest:
    inputs = tuple(TensorSpec(name=name, datatype=kind, shape=shape) for name, kind, shape in specs)  # type: ignore[arg-type]
    return manifest("ncf", inputs=inputs, max_batch=max_batch)


def read(spec: tuple[str, str, tuple[int, ...]], value: str, **facts: Any) -> Any:
    return read_inputs(GivenInputs([f"{spec[0]}={value}"]), model(spec, **facts))[spec[0]]


@pytest.mark.parametrize(
    ("datatype", "shape", "value", "expected"),
    [
        ("FP32", (2,), "[1, 2.5]", np.array([[1, 2.5]], np.float32)),
        ("FP32", (2,), "[[1, 2], [3, 4]]", np.array([[1, 2], [3, 4]], np.float32)),
        ("FP32", (-1, 2), "[[1, 2], [3, 4]]", np.array([[[1, 2], [3, 4]]], np.float32)),
        ("INT64", (1,), "7", np.array([[7]], np.int64)),
        ("INT64", (1,), "[7, 8]", np.array([[7], [8]], np.int64)),
        ("INT32", (1,), "7.0", np.array([[7]], np.int32)),
        ("UINT8", (2,), "[0, 255]", np.array([[0, 255]], np.uint8)),
        ("BOOL", (2,), "[true, false]", np.array([[True, False]])),
        ("FP32", (2,), "[true, false]", np.array([[1, 0]], np.float32)),
        ("FP32", (2,), "[-Infinity, 3e38]", np.array([[-np.inf, 3e38]], np.float32)),
        ("FP16", (1,), "[[0.5]]", np.array([[0.5]], np.float16)),
        ("BYTES", (1,), "a = b", np.array([["a = b"]], np.object_)),
        ("BYTES", (1,), '["a", "b"]', np.array([["a"], ["b"]], np.object_)),
        ("BYTES", (2,), '["a", "b"]', np.array([["a", "b"]], np.object_)),
        ("BYTES", (1,), "nobody@example.com", np.array([["nobody@example.com"]], object)),
    ],
)
def test_values_get_the_type_and_the_batch_of_the_model(
    datatype: str, shape: tuple[int, ...], value: str, expected: Any
) -> None:
    tensor = read(("x", datatype, shape), value)
    assert tensor.dtype == expected.dtype
    assert tensor.tolist() == expected.tolist()


def test_without_a_batch_dimension_shapes_are_taken_as_they_are() -> None:
    assert read(("x", "FP32", (2,)), "[1, 2]", max_batch=0).shape == (2,)
    assert read(("x", "FP32", (1,)), "1", max_batch=0).shape == (1,)
    with pytest.raises(UsageError, match=r"input 'x', got \[2, 2\]"):
        read(("x", "FP32", (2,)), "[[1, 2], [3, 4]]", max_batch=0)


@pytest.mark.parametrize(
    ("datatype", "value", "message"),
    [
        ("FP32", "[1, 2, 3]", "'x', got [3]"),
        ("FP32", "[[1], [2, 3]]", "'x' differ in length"),
        ("FP32", '["a", "b"]', "'x', got texts"),
        ("FP32", "[null, 1]", "'x', got null"),
        ("INT64", "[1.5, 2]", "'x', got decimal numbers"),
        ("UINT8", "[1, 256]", "range of UINT8"),
        ("BOOL", "[1, 0]", "'x', got integers"),
        ("BYTES", "[1, 2]", "'x' (BYTES), got integers"),
        ("BYTES", '[["a"], ["b", "c"]]', "different length"),
        ("BYTES", '["a", "\\ud800"]', "'\\ud800'"),
        ("BYTES", "caf\udce9", "'caf\\udce9'"),
        ("INT64", f"[{2**70}, 1]", "64 bits"),
        ("INT64", "[NaN, 1]", "'x', got decimal numbers"),
        ("FP32", '{"a": 1}', "'x', got JSON objects"),
        ("FP32", '{"a": 1, "a": 2}', "duplicate key 'a'"),
        ("FP16", "[70000, 1]", "range of FP16"),
        ("FP32", "[1e39, 1]", "range of FP32"),
        ("FP32", "one", "invalid JSON"),
        ("FP32", "@missing.npy", "missing.npy: No such file"),
    ],
)
def test_values_that_do_not_fit_are_rejected(datatype: str, value: str, message: str) -> None:
    spec = ("x", datatype, (2,))
    with pytest.raises(UsageError) as caught:
        read(spec, value)
    assert message in caught.value.message
    assert caught.value.code == "TS912"
    assert caught.value.remedy


PAIR = (("user", "INT64", (1,)), ("item", "INT64", (1,)))


@pytest.mark.parametrize(
    ("values", "message", "remedy"),
    [
        (["usr=1"], "'usr'", "'user'"),
        (["user=1"], "item (INT64, shape [1])", "item=@FILE"),
        (["user=1", "user=2"], "duplicate input 'user'", "once"),
        (["user"], "--input user: ", "NAME=@FILE"),
        (["user=[1,2]", "item=1"], "user has 2, item has 1", "same rows"),
        (["user=[]", "item=[]"], "got 0", "per row"),
        (["user=[1,2,3]", "item=[1,2,3]"], "at most 2 rows, got 3", "max_batch"),
    ],
)
def test_inputs_are_compared_with_those_of_the_model(values: list[str], message: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_inputs(GivenInputs(values), model(*PAIR, max_batch=2))
    assert message in caught.value.message
    assert remedy in str(caught.value.remedy)


# Files


def test_data_files_name_their_inputs(tmp_path: Path) -> None:
    npz, plain, triton = tmp_path / "a.npz", tmp_path / "a.json", tmp_path / "b.json"
    np.savez(npz, user=np.array([7]), item=np.array([[42]], np.int32))
    plain.write_text('{"user": 7, "item": [[42]]}')
    tensors = [
        {"name": name, "shape": [1, 1], "datatype": "INT64", "data": [value]}
        for name, value in (("user", 7), ("item", 42))
    ]
    triton.write_text(json.dumps({"inputs": tensors}))
    for file in (npz, plain, triton):
        arrays = read_inputs(GivenInputs(data=file), model(*PAIR))
        assert {name: array.tolist() for name, array in arrays.items()} == {"user": [[7]], "item": [[42]]}
        assert {array.dtype for array in arrays.values()} == {np.dtype(np.int64)}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"1,2", "is neither .npz nor .json"),
        ("a.json", b"[1, 2]", "expected an object"),
        ("a.json", b"{", "invalid JSON"),
        ("a.json", b'{"inputs": [{"name": "user"}]}', "expected an object"),
        ("a.json", b'{"inputs": [{"name": "user", "shape": [2], "data": [1]}]}', "shape [2]"),
        ("a.npz", b"PK", "cannot read"),
    ],
)
def test_data_files_of_other_forms_are_rejected(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_inputs(GivenInputs(data=tmp_path / name), model(*PAIR))
    assert message in caught.value.message
    assert caught.value.code == "TS912"


def test_pickles_are_not_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(UsageError, match="allow_pickle=False"):
        read(("x", "FP32", (1,)), f"@{tmp_path / 'x.npy'}")


def test_a_file_for_a_bytes_input_is_sent_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8\x00")
    assert read(("IMAGE", "BYTES", (1,)), f"@{tmp_path / 'a.jpg'}").tolist() == [[b"\xff\xd8\x00"]]


def test_arrays_and_json_are_read_for_any_input(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([1.0, 2.0]))
    np.save(tmp_path / "t.npy", np.array(["a", "b"]))
    (tmp_path / "x.json").write_text("[3, 4]")
    assert read(("x", "FP32", (2,)), f"@{tmp_path / 'x.npy'}").tolist() == [[1.0, 2.0]]
    assert read(("x", "FP32", (2,)), f"@{tmp_path / 'x.json'}").tolist() == [[3.0, 4.0]]
    assert read(("t", "BYTES", (1,)), f"@{tmp_path / 't.npy'}").tolist() == [["a"], ["b"]]


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_audio_becomes_samples(tmp_path: Path, width: int) -> None:
    expected = np.array([0.0, 0.5, -0.5, -1.0])
    limit = 2 ** (8 * width - 1)
    whole = [int(value * limit) + (128 if width == 1 else 0) for value in expected]
    raw = b"".join(value.to_bytes(width, "little", signed=width > 1) for value in whole for _ in range(2))
    with wave.open(str(tmp_path / "a.wav"), "wb") as audio:
        audio.setnchannels(2)
        audio.setsampwidth(width)
        audio.setframerate(16000)
        audio.writeframes(raw)
    samples = read(("audio", "FP32", (-1,)), f"@{tmp_path / 'a.wav'}")
    assert samples.dtype == np.float32
    np.testing.assert_allclose(samples, [expected], atol=2 / 2**8)


def test_an_image_becomes_pixels(tmp_path: Path) -> None:
    stored = io.BytesIO()
    Image.new("RGB", (4, 2), (10, 20, 30)).save(stored, "png")
    (tmp_path / "a.png").write_bytes(stored.getvalue())
    last = read(("image", "UINT8", (-1, -1, 3)), f"@{tmp_path / 'a.png'}")
    first = read(("image", "UINT8", (3, 2, 4)), f"@{tmp_path / 'a.png'}")
    assert (last.shape, first.shape) == ((1, 2, 4, 3), (1, 3, 2, 4))
    assert last[0, 1, 3].tolist() == first[0, :, 1, 3].tolist() == [10, 20, 30]


@pytest.mark.parametrize(
    ("name", "spec", "message"),
    [
        ("a.wav", ("x", "FP32", (-1,)), "cannot read"),
        ("a.png", ("x", "UINT8", (-1, -1, 3)), "as an image"),
        ("a.png", ("x", "FP32", (3, 8, 8)), "cannot become input 'x', FP32 of shape [3, 8, 8]"),
        ("a.txt", ("x", "INT64", (1,)), "cannot become input 'x'"),
    ],
)
def test_files_that_cannot_become_the_input_are_rejected(
    tmp_path: Path, name: str, spec: Any, message: str
) -> None:
    (tmp_path / name).write_bytes(b"not what the name says")
    with pytest.raises(UsageError) as caught:
        read(spec, f"@{tmp_path / name}")
    assert message in caught.value.message
    assert caught.value.code == "TS912"


def damaged_zip(file: Path, *, encrypted: bool) -> None:
    """Write a compressed array, and flip bits of its data, or the flag that marks it as encrypted."""
    np.savez_compressed(file, x=np.arange(1000, dtype=np.float32))
    raw = bytearray(file.read_bytes())
    if encrypted:
        raw[6] |= 1
        raw[raw.index(b"PK\x01\x02") + 8] |= 1
    else:
        raw[200:260] = bytes(60)
    file.write_bytes(raw)


def oversized(file: Path) -> None:
    """Write the header of an array that no memory holds."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**50},), }}".encode().ljust(117) + b"\n"
    file.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)


def cut_audio(file: Path) -> None:
    with wave.open(str(file), "wb") as audio:
        audio.setnchannels(2)
        audio.setsampwidth(2)
        audio.setframerate(16000)
        audio.writeframes(bytes(40))
    file.write_bytes(file.read_bytes()[:-3])


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("a.npz", lambda file: damaged_zip(file, encrypted=False)),
        ("a.npz", lambda file: damaged_zip(file, encrypted=True)),
        ("a.npy", oversized),
        ("a.wav", cut_audio),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, damage: Callable[[Path], None]) -> None:
    damage(tmp_path / name)
    inputs = GivenInputs(data=tmp_path / name) if name == "a.npz" else GivenInputs([f"x=@{tmp_path / name}"])
    with pytest.raises(UsageError, match=f"cannot read .*{name}") as caught:
        read_inputs(inputs, model(("x", "FP32", (-1,))))
    assert (caught.value.code, bool(caught.value.remedy)) == ("TS912", True)
