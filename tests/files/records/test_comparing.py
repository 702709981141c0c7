"""Messages about the error of an answer, and round trips of example tensors."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.environments import many
from tritonstack.base.error_kinds import ArtifactNotFoundError
from tritonstack.files.model.tolerance import Tolerance
from tritonstack.files.records.comparing import first_difference, kind_of
from tritonstack.files.records.examples import MOST_VALUES, ExampleTensor, array_of, tensor_of

RIGHT = np.array([[1.0, 2.0], [30.0, 40.0]], dtype=np.float32)


@pytest.mark.parametrize(
    ("actual", "tolerance", "told"),
    [
        ([[1.0, 2.0], [30.0, 40.0]], Tolerance(absolute=0.1), ""),
        # The first that is too far off, not the furthest.
        ([[1.0, 2.3], [30.0, 49.0]], Tolerance(absolute=0.2), "2.3 for 2 at [0, 1]"),
        # A share of each row's largest value: 0.3 is too far in the first, and 3 is not in the second.
        ([[1.3, 2.0], [33.0, 40.0]], Tolerance(relative=0.1), "1.3 for 1 at [0, 0]"),
        ([[1.1, 2.0], [38.0, 40.0]], Tolerance(relative=0.1), "38 for 30 at [1, 0]"),
        # A direction is a matter of all: the furthest.
        ([[1.0, 2.3], [30.0, 49.0]], Tolerance(cosine=0.9999), "49 for 40 at [1, 1]"),
        ([[1.0, np.nan], [30.0, 40.0]], Tolerance(cosine=0.9999), "nan for 2 at [0, 1]"),
    ],
)
def test_first_value_beyond_the_tolerance_is_reported(actual: Any, tolerance: Tolerance, told: str) -> None:
    assert first_difference(np.array(actual, dtype=np.float32), RIGHT, tolerance) == told


def test_first_different_text_is_reported() -> None:
    right = np.array([[b"no", b"yes"]], dtype=np.object_)
    other = np.array([[b"no", "Ärger".encode()]], dtype=np.object_)
    assert first_difference(other, right, Tolerance(absolute=1)) == "'Ärger' for 'yes' at [0, 1]"
    assert first_difference(right, right, Tolerance(absolute=1)) == ""


@pytest.mark.parametrize(
    ("expected", "kind"),
    [
        (np.zeros((2, 3)), "vectors"),
        (np.zeros((2, 1)), "numbers"),
        (np.zeros((2, 1), dtype=np.int64), "whole"),
        (np.zeros((2, 3), dtype=np.bool_), "whole"),
        (np.array([[b"text"]], dtype=np.object_), "vectors"),
        (np.zeros((0, 3)), "vectors"),
    ],
)
def test_comparison_depends_on_the_expected_output(expected: Any, kind: str) -> None:
    assert kind_of(expected) == kind


def again(array: Any) -> Any:
    """Return an array after a round trip through a file."""
    text = tensor_of("x", array).model_dump_json(exclude_defaults=True)
    return array_of(ExampleTensor.model_validate_json(text))


KINDS = st.sampled_from(["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])


@many(100)
@given(KINDS.flatmap(lambda kind: arrays.arrays(kind, arrays.array_shapes(max_dims=3, max_side=3))))
def test_numbers_are_returned_bit_for_bit(array: Any) -> None:
    """Including infinities and NaN, which JSON cannot represent."""
    back = again(array)
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert np.array_equal(back, array, equal_nan=array.dtype.kind == "f")


@many(100)
@given(st.lists(st.text() | st.binary(), max_size=5))
def test_texts_and_bytes_are_returned(items: list[str | bytes]) -> None:
    array = np.array([*items, None], dtype=np.object_)[:-1].reshape(1, -1)
    back = again(array)
    assert back.shape == array.shape
    assert back.ravel().tolist() == [item.encode() if isinstance(item, str) else item for item in items]


def test_small_tensors_are_written_as_values() -> None:
    assert tensor_of("x", np.array([[0.1, -2]], dtype=np.float32)).values == (0.1, -2.0)
    assert tensor_of("x", np.array([["naïve", b"caf\xc3\xa9"]], dtype=np.object_)).values == ("naïve", "café")
    assert tensor_of("x", np.array([["one"], ["two"]])).datatype == "BYTES"
    assert tensor_of("x", np.zeros(MOST_VALUES, dtype=np.int8)).values is not None


def test_many_values_are_packed() -> None:
    pixels = np.arange(3 * 224 * 224, dtype=np.float32).reshape(1, 3, 224, 224) % 256
    tensor = tensor_of("pixel_values", pixels)
    assert tensor.values is None
    assert len(tensor.packed or "") < pixels.nbytes / 10
    assert np.array_equal(array_of(tensor), pixels)


def packed(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw)).decode()


@pytest.mark.parametrize(
    "fields",
    [
        {"values": (1.0, 2.0)},
        {"values": ("three",) * 3},
        {"values": (300, 1, 1), "datatype": "UINT8"},
        {"packed": "no base64!"},
        {"packed": base64.b64encode(b"no zlib").decode()},
        {"packed": packed(b"0" * 8)},
        {"packed": packed(b"0" * 16)},
        {"packed": packed(b"\0" * 10_000_000)},
        {"packed": packed(b"\0")[:-8]},
        {"packed": packed(b"\xff\xff\xff\xff"), "datatype": "BYTES"},
    ],
)
def test_tensor_that_contradicts_its_description_is_rejected(fields: dict[str, Any]) -> None:
    tensor = ExampleTensor.model_validate({"name": "x", "datatype": "FP32", "shape": (3,)} | fields)
    with pytest.raises(ArtifactNotFoundError, match=r"x \(\w+ \[3\]\): ") as caught:
        array_of(tensor)
    assert "tritonstack build" in str(caught.value.remedy)


def test_type_unsupported_by_triton_is_reported() -> None:
    with pytest.raises(ArtifactNotFoundError, match="complex128"):
        tensor_of("x", np.zeros(1, dtype=np.complex128))
