"""Save ONNX graphs given in ONNX's own text form."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper


def save_graph(
    file: Path, text: str, *, opset: int = 17, domain: str = "", **weights: np.ndarray | list[float]
) -> Path:
    """Save a graph such as `(float[batch, 3] x) => (float[batch, 2] y) { y = MatMul(x, w) }`.

    `weights` are its initializers: floats as float32, integers as int64. Operators may be of `domain`, too.
    """
    versions = f'"": {opset}' + (f', "{domain}": 1' if domain else "")
    model = onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{versions}]> g {text}")
    for name, values in weights.items():
        array = np.asarray(values)
        model.graph.initializer.append(
            numpy_helper.from_array(array.astype(np.float32) if array.dtype == float else array, name)
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, file)
    return file
