"""Compare the endpoint's embeddings with those of transformers; exit with 1 if they differ."""

from __future__ import annotations

import sys

import numpy as np
import torch
from transformers import AutoTokenizer, MPNetModel

from train import WEIGHTS, embed
from tritonstack.client import EndpointClient

LEAST_COSINE = 0.9999
PARAPHRASES = (
    ("A man is eating food.", "Someone is having a meal."),
    ("My sister pushes a cart through the woods.", "The girl moves a wagon in the forest."),
    ("Our neighbor bought a new phone.", "The lady next door purchased a mobile device."),
)


def main() -> int:
    """Print the differences, and whether each paraphrase is closer than every unrelated sentence."""
    texts = [text for pair in PARAPHRASES for text in pair]
    with torch.no_grad():
        model = MPNetModel.from_pretrained(WEIGHTS, add_pooling_layer=False)
        expected = embed(model, AutoTokenizer.from_pretrained(WEIGHTS), texts).numpy()
    client = EndpointClient(endpoint_name="tritonstack-local-mpnet")
    actual = client.infer({"TEXT": np.array([[text] for text in texts], dtype=object)})["embedding"]
    cosine = float((actual * expected).sum(axis=1).min())
    print(f"{len(texts)} texts, lowest cosine to transformers {cosine:.7f}")
    similarity = actual @ actual.T - 2 * np.eye(len(texts))
    nearest = similarity.argmax(axis=1)
    for index, text in enumerate(texts):
        print(f"{similarity[index].max():.2f}  {text}  ->  {texts[nearest[index]]}")
    found = all(nearest[index] == index ^ 1 for index in range(len(texts)))
    return 0 if cosine >= LEAST_COSINE and found else 1


if __name__ == "__main__":
    sys.exit(main())
