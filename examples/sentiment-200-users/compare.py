"""Compare the endpoints' labels and scores with those of transformers; exit with 1 if they differ."""

from __future__ import annotations

import sys

import numpy as np
import torch
from transformers import AutoTokenizer, RobertaForSequenceClassification

from sentences import SENTENCES
from train import HERE, scores
from tritonstack.client import EndpointClient

ENDPOINTS = {"onnx": "sentiment-onnx", "torchscript": "sentiment-torchscript"}
TOLERANCE = 1e-4


def main() -> int:
    """Print the label of each sentence, and the largest difference of the scores."""
    equal = True
    texts = np.array([[text] for text in SENTENCES], dtype=object)
    for endpoint, model in ENDPOINTS.items():
        weights = HERE / "models" / model / "weights"
        framework = RobertaForSequenceClassification.from_pretrained(weights)
        with torch.no_grad():
            logits = scores(framework, AutoTokenizer.from_pretrained(weights), list(SENTENCES))
        client = EndpointClient(endpoint_name=f"tritonstack-local-{endpoint}")
        difference = np.abs(client.infer({"TEXT": texts})["scores"] - logits.softmax(dim=1).numpy()).max()
        best = [classes[0] for classes in client.classify({"TEXT": texts}, output="scores")]
        print(f"{endpoint}: largest difference to transformers {difference:.1e}")
        for (text, expected), found in zip(SENTENCES.items(), best, strict=True):
            print(f"  {found.label} {found.value:.3f}  {text}")
            equal &= found.label == expected
        equal &= bool(difference <= TOLERANCE)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
