"""A Python model of one package and 2 MB of weights, for tests of builds."""

from pathlib import Path

import numpy as np

from tests.model_build.supplied_models import PYTHON_MODEL, write_supplied
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec

CODE = PYTHON_MODEL.format(imports="import plain", body="y = -x")
ANSWERED = [
    {"inputs": {"x": [1.0, 2.0]}, "outputs": {"y": [-1.0, -2.0]}},
    {"inputs": {"x": [0.5, -3.0]}, "outputs": {"y": [-0.5, 3.0]}},
]


def write_plain_model(folder: Path, code: str = CODE) -> Document[ModelSpec]:
    """Write the model; pip must find its package `plain`."""
    files = {
        "model.py": code.encode(),
        "requirements.txt": b"plain==1.0\n",
        "weights/noise.dat": np.random.default_rng(3).bytes(2_000_000),
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    recipe = {"kind": "python", "requirements": "requirements.txt"}
    return write_supplied(folder, recipe, name="plain", test_inputs=ANSWERED)
