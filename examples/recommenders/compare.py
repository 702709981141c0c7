"""Recommend through the endpoints, and compare with PyTorch; exit with 1 if scores or metrics differ."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

import train
from tritonstack.client import EndpointClient, ModelNames

HERE = Path(__file__).parent
PREFIX = "tritonstack-local"
TOLERANCE = 1e-5


def clients() -> dict[tuple[str, str], EndpointClient]:
    """Return a client per endpoint and category; a multi-model endpoint takes the model's name."""
    names = ModelNames.published(f"/{PREFIX}/targets/both")
    both = EndpointClient(endpoint_name=f"{PREFIX}-both", target_model="ncf-food", models=names)
    return {
        ("food", "food"): EndpointClient(endpoint_name=f"{PREFIX}-food"),
        ("both", "food"): both,
        ("both", "fashion"): both.with_model("ncf-fashion"),
    }


def main() -> int:
    """Rank each user's candidates through each endpoint."""
    equal = True
    for (endpoint, category), client in clients().items():
        data = train.load_interactions(category)
        module = torch.jit.load(HERE / "models" / f"ncf-{category}" / "weights" / "model.pt")
        differences = []

        def score(users: train.Ids, items: train.Ids) -> np.ndarray:
            answer = client.infer({"user": users, "item": items})["OUTPUT__0"]  # noqa: B023 - called in this turn
            differences.append(np.abs(answer - train.score_of(module)(users, items)).max())  # noqa: B023
            return answer

        served = train.evaluate(data, score)
        expected = train.evaluate(data, train.score_of(module))
        baseline = train.evaluate(data, train.popularity(data))
        difference = float(max(differences))
        print(f"{endpoint}: ncf-{category}: {len(differences)} users, largest difference {difference:.1e}")
        for measure in ("hit_rate", "ndcg"):
            values = (
                f"{served[measure]:.3f} (PyTorch {expected[measure]:.3f}, popularity {baseline[measure]:.3f})"
            )
            print(f"  {measure} at {train.TOP}: {values}")
        equal &= difference <= TOLERANCE and served["hit_rate"] > baseline["hit_rate"]
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
