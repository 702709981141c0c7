"""Ask all models through both endpoints; exit with 1 if one differs from its framework."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import joblib
import lightgbm
import numpy as np
import torch
import transformers
import xgboost
from numpy.typing import NDArray
from PIL import Image

import train
from tritonstack.client import EndpointClient, ModelNames

PREFIX = "tritonstack-local"
TOLERANCE = 1e-4
IMAGES = ("wide.png", "tall.png", "small.png")
TEXTS = ("The goalkeeper saved a penalty.", "Parliament votes on Friday.", "Rain is expected tomorrow.")
Arrays = Mapping[str, NDArray[Any]]


def weights(model: str) -> Path:
    """Return the folder of a model's weights."""
    return train.HERE / "models" / model / "weights"


def opened(model: str) -> list[Image.Image]:
    """Return the test images of a model."""
    return [Image.open(weights(model) / name).convert("RGB") for name in IMAGES]


def files(model: str) -> Arrays:
    """Return the test images as callers send them: the bytes of the files."""
    return {"IMAGE": np.array([[(weights(model) / name).read_bytes()] for name in IMAGES], dtype=object)}


def resnet() -> tuple[Arrays, Arrays]:
    """Return images, and the scores of transformers."""
    folder = weights("resnet")
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    model = transformers.ResNetForImageClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        logits = model(**processor(opened("resnet"), return_tensors="pt")).logits
    return files("resnet"), {"scores": logits.softmax(dim=1).numpy()}


def detector() -> tuple[Arrays, Arrays]:
    """Return images, and the boxes of PyTorch."""
    folder = weights("detector") / "processor"
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    with torch.inference_mode():
        found = train.make_detector()(processor(opened("detector"), return_tensors="pt")["pixel_values"])
    names = ("boxes", "scores", "classes")
    return files("detector"), {name: tensor.numpy() for name, tensor in zip(names, found, strict=True)}


def topics() -> tuple[Arrays, Arrays]:
    """Return texts, and the scores of transformers."""
    folder = weights("topics")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.BertForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        logits = model(**tokenizer(list(TEXTS), padding=True, return_tensors="pt")).logits
    texts = np.array([[text] for text in TEXTS], dtype=object)
    return {"TEXT": texts}, {"scores": logits.softmax(dim=1).numpy()}


def fraud() -> tuple[Arrays, Arrays]:
    """Return payments, and the probabilities and SHAP values of XGBoost."""
    rows = train.payments()[0][3500:3564]
    booster = xgboost.Booster(model_file=weights("fraud") / "fraud.json")
    chances = booster.predict(xgboost.DMatrix(rows))
    shap = booster.predict(xgboost.DMatrix(rows), pred_contribs=True)
    answers = {"output__0": np.stack([1 - chances, chances], axis=1), "treeshap_output": shap}
    return {"input__0": rows}, answers


def delivery() -> tuple[Arrays, Arrays]:
    """Return parcels, and the hours and SHAP values of LightGBM."""
    rows = train.parcels()[0][2600:2664]
    booster = lightgbm.Booster(model_file=weights("delivery") / "delivery.txt")
    hours, shap = (np.asarray(booster.predict(rows, pred_contrib=one)) for one in (False, True))
    return {"input__0": rows}, {"output__0": hours, "treeshap_output": shap}


def churn() -> tuple[Arrays, Arrays]:
    """Return customers, and the probabilities of scikit-learn."""
    rows = train.customers()[0][1800:1864].astype(np.float32)
    pipeline = joblib.load(weights("churn") / "churn.joblib")
    return {"X": rows}, {"probabilities": pipeline.predict_proba(rows)}


MODELS = {"vision": (resnet, detector, topics), "tables": (fraud, delivery, churn)}


def main() -> int:
    """Print the largest difference of each model."""
    equal = True
    for endpoint, models in MODELS.items():
        names = ModelNames.published(f"/{PREFIX}/targets/{endpoint}")
        for model in models:
            client = EndpointClient(
                endpoint_name=f"{PREFIX}-{endpoint}", target_model=model.__name__, models=names
            )
            request, expected = model()
            answer = client.infer(request)
            difference = max(np.abs(answer[name] - array).max() for name, array in expected.items())
            print(f"{endpoint}: {model.__name__}: largest difference to its framework {difference:.1e}")
            equal &= bool(difference <= TOLERANCE)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
