"""Recommend through the multi-model endpoint, and compare with PyTorch; exit with 1 if scores differ."""

from __future__ import annotations

import sys

import numpy as np
import torch

import train
from tritonstack.client import EndpointClient, ModelNames

PREFIX = "tritonstack-local"
TOLERANCE = 1e-4
MODELS = {"books": "next-book", "films": "next-film"}


def main() -> int:
    """Ask for the next item of every held-out session, 20 sessions per request."""
    equal = True
    names = ModelNames.published(f"/{PREFIX}/targets/sessions")
    endpoint = EndpointClient(endpoint_name=f"{PREFIX}-sessions", target_model="next-book", models=names)
    for shop_name, model in MODELS.items():
        client = endpoint.with_model(model)
        shop = train.make_shop(shop_name)
        module = torch.jit.load(train.EXPORTS / shop_name / "1_predictpytorchtriton/1/model.pt")
        known, held_out = train.split(shop)
        served, expected = [], []
        for begin in range(0, len(held_out), 20):
            inputs = train.request(shop, [session[:-1] for session in held_out[begin : begin + 20]])
            served.append(client.infer(inputs)["next_item"])
            expected.append(train.answer(module, shop, inputs))
        scores = np.concatenate(served)
        difference = float(np.abs(scores - np.concatenate(expected)).max())
        baseline = train.recall(train.popularity(known, len(held_out)), held_out)
        print(
            f"{model}: {len(held_out)} sessions, largest difference {difference:.1e}; "
            f"recall at {train.TOP} {train.recall(scores, held_out):.2f}, popularity {baseline:.2f}"
        )
        equal &= difference <= TOLERANCE
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
