"""The codec compared with NVIDIA's tritonclient: the same requests, and the same arrays."""

import json

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput, InferResult
from tritonclient.utils import np_to_triton_dtype, triton_to_np_dtype

from tritonstack.base.byte_tensors import DATATYPES, datatype_of, numpy_type, raw_bytes
from tritonstack.client import MalformedReplyError, TopClasses, decode_reply, encode_request
from tritonstack.client.codec import content_type_for
from tritonstack.files.records.manifests import ELEMENT_BYTES

NUMBERS = sorted(DATATYPES - {"BYTES", "BF16"})
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10)
STRINGS = st.binary(max_size=9) | st.text(st.characters(exclude_categories=["Cs"]), max_size=9)


@st.composite
def bfloats(draw):
    bits = draw(arrays.arrays(np.uint16, SHAPES))
    return (
        bits.view(ml_dtypes.bfloat16) if bits.ndim else bits.reshape(1).view(ml_dtypes.bfloat16).reshape(())
    )


@st.composite
def strings(draw, items=STRINGS):
    shape = draw(SHAPES)
    array = np.empty(shape, np.object_)
    for index in np.ndindex(shape):
        array[index] = draw(items)
    return array


TENSORS = st.one_of(
    *(arrays.arrays(triton_to_np_dtype(datatype), SHAPES) for datatype in NUMBERS), bfloats(), strings()
)
PARAMETERS = st.fixed_dictionaries(
    {},
    optional={
        "sequence_id": st.integers(0, 2**32) | st.text("abc", max_size=4),
        "sequence_start": st.booleans(),
        "sequence_end": st.booleans(),
        "priority": st.integers(0, 9),
        "timeout": st.none() | st.integers(0, 10**6),
        "mode": st.text(max_size=5) | st.integers(-9, 9) | st.booleans() | st.floats(-1, 1),
    },
)
OUTPUTS = st.lists(NAMES | st.builds(TopClasses, NAMES, st.integers(1, 9)), max_size=3)


def tritonclient_request(inputs, outputs, request_id, parameters):
    """Return tritonclient's request for the same arguments."""
    own = {name: value for name, value in parameters.items() if name != "mode"}
    others = {name: value for name, value in parameters.items() if name == "mode"}
    requested = [
        InferRequestedOutput(output.output, class_count=output.count)
        if isinstance(output, TopClasses)
        else InferRequestedOutput(output)
        for output in outputs
    ]
    given_inputs = [
        InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)).set_data_from_numpy(array)
        for name, array in inputs.items()
    ]
    return InferenceServerClient.generate_request_body(
        given_inputs, outputs=requested or None, request_id=request_id, parameters=others or None, **own
    )


INPUTS = st.dictionaries(NAMES, TENSORS, min_size=1, max_size=3)


@given(INPUTS, OUTPUTS, st.text("r1é", max_size=3), PARAMETERS)
def test_requests_are_those_of_tritonclient(inputs, outputs, request_id, parameters):
    request = encode_request(inputs, outputs=outputs, request_id=request_id, parameters=parameters)
    body, size = tritonclient_request(inputs, outputs, request_id, parameters)
    assert json.loads(request.body[: request.header_size]) == json.loads(body[:size])
    assert request.body[request.header_size :] == body[size:]
    assert request.content_type == content_type_for(request.header_size)


@given(arrays.arrays(np.float32, arrays.array_shapes(min_dims=2, max_dims=2, max_side=6)))
def test_views_are_sent_as_tritonclient_sends_them(array):
    for view in (array.T, array[::-1], array[:, ::2], array.astype(">f4").astype("<f4")):
        body, size = tritonclient_request({"x": view}, [], "", {})
        request = encode_request({"x": view})
        assert request.body[request.header_size :] == body[size:]


@pytest.mark.parametrize("datatype", sorted(DATATYPES))
def test_datatypes_are_those_of_tritonclient(datatype):
    assert numpy_type(datatype) == np.dtype(triton_to_np_dtype(datatype))
    assert datatype_of(numpy_type(datatype)) == datatype == np_to_triton_dtype(numpy_type(datatype))


@pytest.mark.parametrize(
    "dtype",
    [*"bBhHiIlLqQefdg?OFD", "S3", "U3", "M8[s]", "m8[s]", "V2", "i4,f4", "longdouble"]
    + [getattr(ml_dtypes, name) for name in ("bfloat16", "float8_e4m3fn", "int4", "uint4", "float8_e5m2")],
)
def test_every_numpy_type_has_the_datatype_that_tritonclient_gives_it(dtype):
    assert datatype_of(np.dtype(dtype)) == np_to_triton_dtype(np.dtype(dtype))


def test_manifests_support_the_same_datatypes():
    assert ELEMENT_BYTES.keys() == DATATYPES


def binary_reply(tensors):
    """Return a reply as Triton writes it, and the size of its JSON."""
    payloads = [bytes(raw_bytes(array)) for array in tensors.values()]
    outputs = [
        {
            "name": name,
            "datatype": np_to_triton_dtype(array.dtype),
            "shape": list(array.shape),
            "parameters": {"binary_data_size": len(payload)},
        }
        for (name, array), payload in zip(tensors.items(), payloads, strict=True)
    ]
    header = json.dumps({"model_name": "m", "model_version": "1", "outputs": outputs}).encode()
    return b"".join([header, *payloads]), len(header)


def same(ours, theirs):
    """Return whether two arrays are equal in type, shape, and every bit; strings as bytes."""
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return False
    if ours.dtype == np.object_:
        return ours.ravel().tolist() == [
            item.encode() if isinstance(item, str) else item for item in theirs.ravel()
        ]
    return ours.tobytes() == theirs.tobytes()


@given(st.dictionaries(NAMES, TENSORS, max_size=3))
def test_binary_replies_hold_the_arrays_that_tritonclient_reads(tensors):
    body, size = binary_reply(tensors)
    reply = decode_reply(body, content_type=content_type_for(size))
    theirs = InferResult.from_response_body(body, header_length=size)
    assert list(reply.outputs) == list(tensors)
    for name, array in reply.outputs.items():
        assert same(array, theirs.as_numpy(name))
        assert array.dtype == np.object_ or array.flags.aligned


def test_numbers_are_views_of_the_reply():
    body, size = binary_reply({"x": np.arange(1000, dtype=np.uint8)})
    assert not decode_reply(body, content_type=content_type_for(size)).outputs["x"].flags.owndata


NARROW = {"allow_nan": False, "allow_infinity": False}
JSON_TENSORS = st.one_of(
    *(
        arrays.arrays(triton_to_np_dtype(datatype), SHAPES, elements=NARROW if datatype[:2] == "FP" else None)
        for datatype in NUMBERS
    ),
    strings(st.text(st.characters(exclude_categories=["Cs"]), max_size=9)),
)


@given(JSON_TENSORS, st.booleans())
def test_json_replies_hold_the_arrays_that_tritonclient_reads(array, nested):
    nested = nested and array.ndim > 0
    output = {
        "name": "x",
        "datatype": np_to_triton_dtype(array.dtype),
        "shape": list(array.shape),
        "data": array.tolist() if nested else array.ravel().tolist(),
    }
    body = json.dumps({"outputs": [output]}).encode()
    reply = decode_reply(body, content_type="application/json")
    assert same(reply.outputs["x"], InferResult.from_response_body(body).as_numpy("x"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
DAMAGED_OUTPUT = st.fixed_dictionaries(
    {},
    optional={
        "name": st.just("x") | JSON,
        "datatype": st.sampled_from(sorted(DATATYPES)) | JSON,
        "shape": st.lists(st.integers(-1, 3) | st.integers(2**30, 2**70), max_size=3) | JSON,
        "parameters": st.fixed_dictionaries({"binary_data_size": st.integers(-1, 20) | JSON}) | JSON,
        "data": JSON | st.lists(JSON, max_size=4),
    },
)


@given(st.lists(DAMAGED_OUTPUT | JSON, max_size=2) | JSON, st.binary(max_size=24), st.booleans(), JSON)
def test_damaged_reply_raises_only_its_own_error(outputs, payload, as_json, parameters):
    header = json.dumps({"outputs": outputs, "parameters": parameters}).encode()
    content_type = "application/json" if as_json else content_type_for(len(header))
    try:
        reply = decode_reply(header if as_json else header + payload, content_type=content_type)
    except MalformedReplyError:
        return
    assert len(reply.outputs) == len(outputs)
    for output, array in zip(outputs, reply.outputs.values(), strict=True):
        assert list(array.shape) == output["shape"]
        assert array.dtype == numpy_type(output["datatype"])


@given(st.dictionaries(NAMES, TENSORS, min_size=1, max_size=2), st.data())
def test_a_reply_of_another_length_is_never_decoded(tensors, data):
    body, size = binary_reply(tensors)
    cut = body[: data.draw(st.integers(0, len(body) - 1))]
    for damaged in (cut, body + data.draw(st.binary(min_size=1, max_size=9))):
        with pytest.raises(MalformedReplyError):
            decode_reply(damaged, content_type=content_type_for(size))
