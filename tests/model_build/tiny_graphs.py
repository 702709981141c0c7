"""Tiny hand-written graphs: a perceptron with a GELU, and a network with convolutions."""

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from model_build.data.cases import Case
from model_build.data.graphs import ExportedGraph
from model_build.graphs.running import GraphSession
from tritonstack.records.manifests import TensorSpec

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
WIDE = 128


def perceptron(folder: Path, *, outputs: int = 16, opset: int = 18, scale: float = 1.0) -> ExportedGraph:
    """Save two layers with an exact GELU between them; `scale` increases the inner values."""
    random = np.random.default_rng(3)
    weights = {
        "w1": random.normal(size=(16, WIDE)) / 4 * scale,
        "b1": random.normal(size=WIDE),
        "w2": random.normal(size=(WIDE, outputs)) / 10 / scale,
        "root": np.array(2**0.5),
        "one": np.array(1.0),
        "half": np.array(0.5),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h0"], name="first"),
        helper.make_node("Add", ["b1", "h0"], ["h"], name="bias"),
        helper.make_node("Div", ["h", "root"], ["g1"], name="div"),
        helper.make_node("Erf", ["g1"], ["g2"], name="erf"),
        helper.make_node("Add", ["g2", "one"], ["g3"], name="add"),
        helper.make_node("Mul", ["h", "g3"], ["g4"], name="mul"),
        helper.make_node("Mul", ["g4", "half"], ["g"], name="halve"),
        helper.make_node("MatMul", ["g", "w2"], ["y"], name="second"),
    ]
    return _save(folder, nodes, weights, {"x": (FLOAT, (16,))}, {"y": (FLOAT, (outputs,))}, opset=opset)


def convolutions(folder: Path) -> ExportedGraph:
    """Save a convolution, a pooling, and a product."""
    random = np.random.default_rng(4)
    weights = {
        "kernel": random.normal(size=(8, 3, 3, 3)) / 5,
        "bias": random.normal(size=8) / 5,
        "w": random.normal(size=(8, 4)),
    }
    nodes = [
        helper.make_node("Conv", ["image", "kernel", "bias"], ["c"], name="conv"),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
        helper.make_node("MatMul", ["f", "w"], ["scores"], name="product"),
    ]
    return _save(folder, nodes, weights, {"image": (FLOAT, (3, 12, 12))}, {"scores": (FLOAT, (4,))})


def lookup(folder: Path) -> ExportedGraph:
    """Save a graph from a variable number of ids to their rows and the ids themselves."""
    random = np.random.default_rng(5)
    weights = {"table": random.normal(size=(50, 8))}
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], name="gather"),
        helper.make_node("Identity", ["rows"], ["states"], name="states"),
        helper.make_node("Identity", ["ids"], ["same"], name="same"),
    ]
    return _save(
        folder,
        nodes,
        weights,
        {"ids": (INT64, (-1,))},
        {"states": (FLOAT, (-1, 8)), "same": (INT64, (-1,))},
    )


def transposed(folder: Path) -> ExportedGraph:
    """Save two layers with transposed weights, with their shapes noted."""
    random = np.random.default_rng(9)
    weights = {
        "w1": random.normal(size=(32, 6)),
        "b1": random.normal(size=32),
        "w2": random.normal(size=(3, 32)),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], name="first", transB=1),
        helper.make_node("Tanh", ["h"], ["t"], name="bend"),
        helper.make_node("Gemm", ["t", "w2"], ["y"], name="second", transB=1),
    ]
    graph = _save(folder, nodes, weights, {"x": (FLOAT, (6,))}, {"y": (FLOAT, (3,))})
    model = onnx.load(graph.file)
    for tensor in model.graph.initializer:
        value = helper.make_tensor_value_info(tensor.name, FLOAT, tensor.dims)
        model.graph.value_info.append(value)
    onnx.save(model, graph.file)
    return graph


def with_outliers(folder: Path) -> ExportedGraph:
    """Save a layer normalization with two large channels, and three products that read it."""
    random = np.random.default_rng(12)
    scale = np.ones(64)
    scale[[5, 40]] = 60.0
    weights = {
        "scale": scale,
        "shift": random.normal(size=64) / 10,
        "w1": random.normal(size=(64, WIDE)) / 8,
        "w2": random.normal(size=(WIDE, 64)) / 8,
        "b2": random.normal(size=WIDE) / 8,
        "w3": random.normal(size=(2 * WIDE, 8)) / 16,
    }
    nodes = [
        helper.make_node("LayerNormalization", ["x", "scale", "shift"], ["n"], name="norm", axis=-1),
        helper.make_node("MatMul", ["n", "w1"], ["a"], name="plain"),
        helper.make_node("Gemm", ["n", "w2", "b2"], ["b"], name="transposed", transB=1),
        helper.make_node("Concat", ["a", "b"], ["both"], name="both", axis=1),
        helper.make_node("MatMul", ["both", "w3"], ["y"], name="last"),
        helper.make_node("Identity", ["n"], ["rest"], name="rest"),
    ]
    return _save(folder, nodes, weights, {"x": (FLOAT, (64,))}, {"y": (FLOAT, (8,)), "rest": (FLOAT, (64,))})


def normalized(folder: Path, *, kind: str = "Identity", opset: int = 18) -> ExportedGraph:
    """Save rows scaled to length 1, as opset 18 writes it, followed by another node."""
    nodes = [
        helper.make_node("ReduceL2", ["x", "axes"], ["length"], name="length", keepdims=1),
        helper.make_node("Div", ["x", "length"], ["scaled"], name="scale"),
        helper.make_node(kind, ["scaled"], ["y"], name="last"),
    ]
    axes = {"axes": np.array([1], dtype=np.int64)}
    return _save(folder, nodes, axes, {"x": (FLOAT, (6,))}, {"y": (FLOAT, (6,))}, opset=opset)


def answered(graph: ExportedGraph, *, batches: tuple[int, ...] = (1, 3), sizes: int = 5) -> list[Case]:
    """Return cases with the graph's own answers for random inputs."""
    random = np.random.default_rng(6)
    session = GraphSession(graph.file)
    cases = []
    for batch in batches:
        inputs = {}
        for tensor in graph.inputs:
            shape = (batch, *(sizes if size < 0 else size for size in tensor.shape))
            if tensor.datatype == "INT64":
                inputs[tensor.name] = random.integers(0, 50, shape)
            else:
                inputs[tensor.name] = random.normal(size=shape).astype(np.float32)
        cases.append(Case(f"batch of {batch}", inputs, session.answer(inputs)))
    return cases


def _save(
    folder: Path,
    nodes: list[onnx.NodeProto],
    weights: dict[str, np.ndarray],
    inputs: dict[str, tuple[int, tuple[int, ...]]],
    outputs: dict[str, tuple[int, tuple[int, ...]]],
    *,
    opset: int = 18,
) -> ExportedGraph:
    graph = helper.make_graph(
        nodes,
        "tiny",
        [_value(name, *tensor) for name, tensor in inputs.items()],
        [_value(name, *tensor) for name, tensor in outputs.items()],
        [
            numpy_helper.from_array(array.astype(np.float32) if array.dtype == float else array, name)
            for name, array in weights.items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    return ExportedGraph(folder / "model.onnx", inputs=_specs(inputs), outputs=_specs(outputs))


def _value(name: str, kind: int, shape: tuple[int, ...]) -> onnx.ValueInfoProto:
    sizes = ["batch", *(f"{name}{place}" if size < 0 else size for place, size in enumerate(shape))]
    return helper.make_tensor_value_info(name, kind, sizes)


def _specs(tensors: dict[str, tuple[int, tuple[int, ...]]]) -> tuple[TensorSpec, ...]:
    names = {FLOAT: "FP32", INT64: "INT64"}
    return tuple(
        TensorSpec(name=name, datatype=names[kind], shape=shape) for name, (kind, shape) in tensors.items()
    )
