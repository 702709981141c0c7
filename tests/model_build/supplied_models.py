"""Tiny user-supplied models, each with the model.yaml that builds it."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tritonstack.base.yaml import Document, load_document
from tritonstack.files.model.model import ModelSpec

FEATURES = 5
ROWS = np.random.default_rng(5).random((200, FEATURES), dtype=np.float32)
BINARY = (ROWS[:, 0] > 0.5).astype(int)
CLASSES = (ROWS[:, 0] * 3).astype(int)
VALUES = ROWS[:, 0] * 2

ENTRY = """\
import torch
from safetensors.torch import load_file


class Scorer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, x, *, mask):
        scores = self.layer(x) * mask
        return {"scores": scores, "best": scores.argmax(dim=-1)}


def make(folder):
    module = Scorer()
    module.load_state_dict(load_file(folder / "scorer.safetensors"))
    return module
"""
PYTHON_MODEL = """\
import numpy as np
import triton_python_backend_utils as pb_utils
{imports}

class TritonPythonModel:
    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        {body}
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", y.astype(np.float32))])
"""


def write_supplied(
    folder: Path, recipe: dict[str, Any], *, extra: str = "", **more: Any
) -> Document[ModelSpec]:
    """Write a model.yaml for a model whose files are in `weights` beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "model.yaml"
    facts: dict[str, Any] = {
        "name": "tiny",
        "description": "Tiny.",
        "source": "file://weights",
        "recipe": recipe,
        "batching": {"max_batch": 4},
        **more,
    }
    # JSON is YAML; a key a line, so that errors have lines to name.
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in facts.items() if value is not None)
    file.write_text(text + extra)
    return load_document(file, ModelSpec)


def save_onnx(file: Path, *, batch: int | str = "batch", external: bool = False, domain: str = "") -> Path:
    """Save y = relu(x · w) and the indices of the largest values."""
    import onnx

    from tests.model_build.graph_texts import save_graph

    weight = np.random.default_rng(3).standard_normal((3, 2)).astype(np.float32)
    text = f"""(float[{batch}, 3] x) => (float[{batch}, 2] y, int64[{batch}] best) {{
        p = MatMul(x, w)
        y = {domain + "." if domain else ""}Relu(p)
        best = ArgMax<axis = 1, keepdims = 0>(y)
    }}"""
    save_graph(file, text, domain=domain, w=weight)
    if external:
        options = {"save_as_external_data": True, "location": f"{file.name}.data", "size_threshold": 0}
        onnx.save(onnx.load(file), str(file), **options)
    return file


def save_scripted(file: Path) -> Path:
    """Save a module with torch.jit whose computation depends on the number of rows."""
    import torch

    class Doubler(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.layer = torch.nn.Linear(3, 2)

        def forward(self, x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = self.layer(x) * scale
            return y, y.sum(dim=1)

    file.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted: Any = torch.jit.script(Doubler())
        scripted.save(str(file))
    return file


def write_entry(folder: Path) -> None:
    """Write a function that makes a module, and its weights as safetensors."""
    from safetensors.numpy import save_file

    random = np.random.default_rng(4)
    (folder / "weights").mkdir(parents=True, exist_ok=True)
    weights = {
        "layer.weight": random.standard_normal((2, 3)).astype(np.float32),
        "layer.bias": random.standard_normal(2).astype(np.float32),
    }
    save_file(weights, folder / "weights" / "scorer.safetensors")
    (folder / "scorer.py").write_text(ENTRY)


def save_xgboost(file: Path, objective: str = "binary:logistic") -> Path:
    """Save XGBoost trees in the format of the file's suffix."""
    import xgboost

    targets = {"multi": CLASSES, "reg": VALUES}.get(objective.partition(":")[0], BINARY)
    classes = {"num_class": 3} if objective.startswith("multi") else {}
    booster = xgboost.train(
        {"objective": objective, "max_depth": 3, "nthread": 1, **classes}, xgboost.DMatrix(ROWS, targets), 4
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    booster.save_model(str(file))
    return file


def save_lightgbm(file: Path, objective: str = "multiclass") -> Path:
    """Save LightGBM trees as text."""
    import lightgbm

    targets = CLASSES if objective.startswith("multi") else VALUES
    classes = {"num_class": 3} if objective.startswith("multi") else {}
    settings = {"objective": objective, "verbose": -1, "min_data_in_leaf": 5, "num_threads": 1, **classes}
    file.parent.mkdir(parents=True, exist_ok=True)
    lightgbm.train(settings, lightgbm.Dataset(ROWS, targets), 4).save_model(str(file))
    return file


def save_sklearn(file: Path, kind: str = "RandomForestClassifier") -> Path:
    """Save a scikit-learn forest as a pickle."""
    import joblib
    from sklearn import ensemble

    settings = {"max_iter": 4} if kind.startswith("Hist") else {"n_estimators": 4, "max_depth": 3}
    if kind in ("IsolationForest", "AdaBoostClassifier"):
        settings = {"n_estimators": 4}
    names = np.array(["low", "middle", "high"])[CLASSES]
    file.parent.mkdir(parents=True, exist_ok=True)
    estimator = getattr(ensemble, kind)(random_state=0, **settings)
    joblib.dump(estimator.fit(ROWS, names if kind.endswith("Classifier") else VALUES), file)
    return file


def save_rows(file: Path, rows: int = 5) -> Path:
    """Save rows for trees as an .npz file."""
    np.savez(file, input__0=ROWS[:rows])
    return file
