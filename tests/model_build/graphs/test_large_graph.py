"""A graph with more weights than protobuf can hold: just over 2 GiB."""

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from model_build.graphs.onnx_files import OPSET, save_graph
from model_build.store.archive import pack

ROWS, WIDTH = 9_000_000, 64


def lookup_graph(table: np.ndarray) -> ir.Model:
    """Save a graph that looks up rows of a table by index."""
    ids = ir.Value(
        name="input_ids", type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape(["batch", "length"])
    )
    weights = ir.Value(name="table", const_value=ir.tensor(table, name="table"))
    gather = ir.node("Gather", [weights, ids])
    rows = gather.outputs[0]
    rows.name = "rows"
    rows.type, rows.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(["batch", "length", WIDTH])
    graph = ir.Graph(
        [ids], [rows], nodes=[gather], initializers=[weights], opset_imports={"": OPSET}, name="g"
    )
    return ir.Model(graph, ir_version=8)


@pytest.mark.soak  # it takes half a minute and some gigabytes
def test_a_graph_of_more_than_two_gigabytes_is_written_packed_and_run(tmp_path):
    table = np.zeros((ROWS, WIDTH), dtype=np.float32)
    table[-1] = 7.0
    assert table.nbytes > 2 * 1024**3
    saved = save_graph(lookup_graph(table), tmp_path / "repository" / "large" / "1")
    del table
    assert {file.name for file in saved.file.parent.iterdir()} == {"model.onnx", "model.onnx.data"}
    session = onnxruntime.InferenceSession(str(saved.file), providers=["CPUExecutionProvider"])
    (rows,) = session.run(None, {"input_ids": np.array([[0, ROWS - 1]], dtype=np.int64)})
    assert rows[0, :, 0].tolist() == [0.0, 7.0]
    del session
    packed = pack(tmp_path / "repository", tmp_path / "model.tar.gz")
    assert packed.unpacked_bytes > 2 * 1024**3
