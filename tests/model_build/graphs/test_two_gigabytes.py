"""A graph with more than 2 GiB of weights, which protobuf cannot hold, from build to archive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from model_build.data.cases import same_shapes
from model_build.store.archive import pack
from tests.model_build.supplied_models import write_supplied
from tests.model_build.written_repositories import write_repository

SIZE = 23_200
"""Rows and columns of the one weight: 2.15 GB."""
FIRST = np.array([1, 2, 3, 4], dtype=np.float32)
"""The only weights that are not zero, so that the file takes no room on the disk."""


def save_sparse(folder: Path) -> int:
    """Write y = (x · w)[:, :4]; return the size of the weights in bytes."""
    import onnx
    from onnx import TensorProto, helper

    folder.mkdir(parents=True)
    length = SIZE * SIZE * 4
    with (folder / "model.onnx.data").open("wb") as file:
        file.write(FIRST.tobytes())
        file.truncate(length)
    weight = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[SIZE, SIZE], data_location=TensorProto.EXTERNAL
    )
    for key, value in (("location", "model.onnx.data"), ("offset", "0"), ("length", str(length))):
        entry = weight.external_data.add()
        entry.key, entry.value = key, value
    numbers = {"begin": 0, "end": 4, "axis": 1}
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["product"]),
            helper.make_node("Slice", ["product", *numbers], ["y"]),
        ],
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", SIZE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        [weight, *(helper.make_tensor(name, TensorProto.INT64, [1], [at]) for name, at in numbers.items())],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(folder / "model.onnx"))
    return length


@pytest.mark.soak
def test_weights_beyond_the_limit_of_protobuf(tmp_path: Path) -> None:
    length = save_sparse(tmp_path / "weights")
    assert length > 2**31
    model = write_supplied(
        tmp_path, {"kind": "onnx"}, test_inputs=[{"random": {"rows": 1}}], batching={"max_batch": 1}
    )
    written = write_repository(model, tmp_path / "work")
    assert [len(group) for group in same_shapes(written.cases)] == [1]
    case = written.cases[0]
    np.testing.assert_allclose(case.expected["y"], case.inputs["x"][:, :1] * FIRST, rtol=1e-6)
    packed = pack(written.folder, tmp_path / "model.tar.gz")
    sizes = {entry.path: entry.size_bytes for entry in packed.files}
    assert sizes["tiny/1/model.onnx.data"] == length
    assert packed.size_bytes < length // 50
