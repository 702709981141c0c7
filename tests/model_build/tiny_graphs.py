"""Tiny hand-written graphs: a perceptron with a GELU, and a network with convolutions."""

from pathlib import Path

import numpy as np
import onnx

from model_build.data import Case, ExportedGraph
from model_build.graphs.running import GraphSession
from tests.model_build.graph_texts import save_graph
from tritonstack.files.records.manifests import TensorSpec

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
    text = f"""(float[batch, 16] x) => (float[batch, {outputs}] y) {{
        [first] h0 = MatMul(x, w1)
        [bias] h = Add(b1, h0)
        [div] g1 = Div(h, root)
        [erf] g2 = Erf(g1)
        [add] g3 = Add(g2, one)
        [mul] g4 = Mul(h, g3)
        [halve] g = Mul(g4, half)
        [second] y = MatMul(g, w2)
    }}"""
    return _save(folder, text, weights, opset=opset)


def convolutions(folder: Path) -> ExportedGraph:
    """Save a convolution, a pooling, and a product."""
    random = np.random.default_rng(4)
    weights = {
        "kernel": random.normal(size=(8, 3, 3, 3)) / 5,
        "bias": random.normal(size=8) / 5,
        "w": random.normal(size=(8, 4)),
    }
    text = """(float[batch, 3, 12, 12] image) => (float[batch, 4] scores) {
        [conv] c = Conv(image, kernel, bias)
        [relu] r = Relu(c)
        [pool] p = GlobalAveragePool(r)
        [flatten] f = Flatten(p)
        [product] scores = MatMul(f, w)
    }"""
    return _save(folder, text, weights)


def lookup(folder: Path) -> ExportedGraph:
    """Save a graph from a variable number of ids to their rows and the ids themselves."""
    text = """(int64[batch, ids0] ids) => (float[batch, states0, 8] states, int64[batch, same0] same) {
        [gather] rows = Gather(table, ids)
        [states] states = Identity(rows)
        [same] same = Identity(ids)
    }"""
    return _save(folder, text, {"table": np.random.default_rng(5).normal(size=(50, 8))})


def transposed(folder: Path) -> ExportedGraph:
    """Save two layers with transposed weights, with their shapes noted."""
    random = np.random.default_rng(9)
    weights = {
        "w1": random.normal(size=(32, 6)),
        "b1": random.normal(size=32),
        "w2": random.normal(size=(3, 32)),
    }
    text = """(float[batch, 6] x) => (float[batch, 3] y) <float[32, 6] w1, float[32] b1, float[3, 32] w2> {
        [first] h = Gemm<transB = 1>(x, w1, b1)
        [bend] t = Tanh(h)
        [second] y = Gemm<transB = 1>(t, w2)
    }"""
    return _save(folder, text, weights)


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
    text = """(float[batch, 64] x) => (float[batch, 8] y, float[batch, 64] rest) {
        [norm] n = LayerNormalization<axis = -1>(x, scale, shift)
        [plain] a = MatMul(n, w1)
        [transposed] b = Gemm<transB = 1>(n, w2, b2)
        [both] both = Concat<axis = 1>(a, b)
        [last] y = MatMul(both, w3)
        [rest] rest = Identity(n)
    }"""
    return _save(folder, text, weights)


def normalized(folder: Path, *, kind: str = "Identity", opset: int = 18) -> ExportedGraph:
    """Save rows scaled to length 1, as opset 18 writes it, followed by another node."""
    text = f"""(float[batch, 6] x) => (float[batch, 6] y) {{
        [length] length = ReduceL2<keepdims = 1>(x, axes)
        [scale] scaled = Div(x, length)
        [last] y = {kind}(scaled)
    }}"""
    return _save(folder, text, {"axes": np.array([1])}, opset=opset)


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


def _save(folder: Path, text: str, weights: dict[str, np.ndarray], *, opset: int = 18) -> ExportedGraph:
    file = save_graph(folder / "model.onnx", text, opset=opset, **weights)
    graph = onnx.load(file).graph
    inputs, outputs = (tuple(map(_spec, values)) for values in (graph.input, graph.output))
    return ExportedGraph(file, inputs=inputs, outputs=outputs)


def _spec(value: onnx.ValueInfoProto) -> TensorSpec:
    tensor = value.type.tensor_type
    datatype = {onnx.TensorProto.FLOAT: "FP32", onnx.TensorProto.INT64: "INT64"}[tensor.elem_type]
    shape = tuple(-1 if size.dim_param else size.dim_value for size in tensor.shape.dim[1:])
    return TensorSpec(name=value.name, datatype=datatype, shape=shape)
