"""Train a session-based recommender per shop, and export it in the layout of Merlin Systems.

It stands for NVTabular, Transformers4Rec, and `Ensemble.export`: the same folders, tensors, and config.pbtxt
files, written with PyTorch and NumPy only. The transform step maps item ids to rows of the embedding and
scales prices; the PyTorch step is a small transformer over ragged sessions. All random numbers are seeded.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

EXPORTS = Path(__file__).parent / "exports"
SHOPS = {"books": 21, "films": 22}
"""Each shop's seed: its items and sessions differ."""
SERIES, PER_SERIES = 12, 10
ITEMS = SERIES * PER_SERIES
SESSIONS, LONGEST = 1000, 8
TOP, LEAST_GAIN = 5, 2.0
"""The recall of the next item among the first 5 must exceed popularity's by this factor."""
EPOCHS, BATCH = 4, 256

Arrays = Mapping[str, NDArray[np.generic]]
STEP_CONFIG = """\
name: "{name}"
{platform}{tensors}instance_group {{
}}
{parameters}backend: "{backend}"
"""
TORCH_PARAMETERS = """\
parameters {
  key: "INFERENCE_MODE"
  value {
    string_value: "true"
  }
}
"""
TRANSFORM = '''\
"""Map item ids to rows of the embedding, and scale prices."""

import json
import os

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        folder = os.path.join(args["model_repository"], args["model_version"], "workflow")
        with open(os.path.join(folder, "statistics.json")) as file:
            self.tables = json.load(file)
        self.ids = np.array(self.tables["ids"])

    def execute(self, requests):
        return [pb_utils.InferenceResponse(self.transform(request)) for request in requests]

    def transform(self, request):
        given = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        ids, prices = given["item_id__values"], given["price__values"]
        places = np.clip(np.searchsorted(self.ids, ids), 0, len(self.ids) - 1)
        rows = np.where(self.ids[places] == ids, places + 1, 0)
        scaled = (prices - self.tables["mean"]) / self.tables["deviation"]
        return [
            pb_utils.Tensor("item_id__values", rows.astype(np.int64)),
            pb_utils.Tensor("item_id__offsets", given["item_id__offsets"]),
            pb_utils.Tensor("price__values", scaled.astype(np.float32)),
            pb_utils.Tensor("price__offsets", given["price__offsets"]),
        ]
'''
RAGGED = {
    "item_id__values": ("INT64", (-1,)),
    "item_id__offsets": ("INT32", (-1,)),
    "price__values": ("FP32", (-1,)),
    "price__offsets": ("INT32", (-1,)),
}
"""Two ragged columns: the values of all sessions, and where each session begins."""
SCORES = {"next_item": ("FP32", (-1, ITEMS + 1))}


@dataclass(frozen=True)
class Shop:
    """What visitors clicked, as item numbers from 0, and the ids and prices of the items."""

    sessions: Sequence[NDArray[np.int64]]
    ids: NDArray[np.int64]
    """Sorted ids, as the shop knows its items."""
    prices: NDArray[np.float32]


def make_shop(name: str) -> Shop:
    """Return seeded sessions: the next item is usually the next one of the same series."""
    random = np.random.default_rng(SHOPS[name])
    follows = random.permutation(ITEMS)
    weights = random.dirichlet(np.full(SERIES, 0.8))
    sessions = []
    for _ in range(SESSIONS):
        place = int(random.choice(SERIES, p=weights)) * PER_SERIES + int(random.integers(PER_SERIES))
        places = [place]
        for _ in range(int(random.integers(2, LONGEST))):
            in_series = place // PER_SERIES * PER_SERIES + (place + 1) % PER_SERIES
            place = in_series if random.random() < 0.8 else int(random.integers(ITEMS))
            places.append(place)
        sessions.append(follows[places])
    ids = np.sort(random.choice(90_000, ITEMS, replace=False) + 10_000)
    return Shop(sessions, ids, np.round(random.uniform(3, 60, ITEMS), 2).astype(np.float32))


def request(shop: Shop, sessions: Sequence[NDArray[np.int64]]) -> dict[str, NDArray[np.generic]]:
    """Return sessions as callers send them: ids and prices, one after the other, with their offsets."""
    clicks = np.concatenate(sessions)
    offsets = np.cumsum([0, *map(len, sessions)]).astype(np.int32)
    return {
        "item_id__values": shop.ids[clicks],
        "item_id__offsets": offsets,
        "price__values": shop.prices[clicks],
        "price__offsets": offsets,
    }


def statistics(shop: Shop) -> dict[str, object]:
    """Return what the transform step learns from the data."""
    mean, deviation = float(shop.prices.mean()), float(shop.prices.std())
    return {"ids": shop.ids.tolist(), "mean": mean, "deviation": deviation}


def transform(shop: Shop, inputs: Arrays) -> dict[str, torch.Tensor]:
    """Do in PyTorch what the transform step does in Triton."""
    known = statistics(shop)
    rows = np.searchsorted(shop.ids, inputs["item_id__values"]) + 1
    scaled = (inputs["price__values"] - known["mean"]) / known["deviation"]  # type: ignore[operator]
    made = {**inputs, "item_id__values": rows.astype(np.int64), "price__values": scaled.astype(np.float32)}
    return {name: torch.from_numpy(np.array(array)) for name, array in made.items()}


class NextItem(torch.nn.Module):
    """One layer of attention over the clicks of each session; the last click attends to all."""

    def __init__(self, size: int = 32) -> None:
        super().__init__()
        self.longest = LONGEST
        self.items = torch.nn.Embedding(ITEMS + 1, size)
        self.price = torch.nn.Linear(1, size)
        self.ages = torch.nn.Embedding(LONGEST + 1, size)
        self.query, self.key, self.value = (torch.nn.Linear(size, size) for _ in range(3))
        self.network = torch.nn.Sequential(
            torch.nn.Linear(2 * size, 2 * size), torch.nn.ReLU(), torch.nn.Linear(2 * size, ITEMS + 1)
        )

    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return a score per session and item. The argument has every tensor by name, as in Merlin."""
        rows, prices = inputs["item_id__values"], inputs["price__values"]
        offsets = inputs["item_id__offsets"].to(torch.int64)
        lengths = offsets[1:] - offsets[:-1]
        steps = torch.arange(int(lengths.max().item())).unsqueeze(0)
        mask = steps < lengths.unsqueeze(1)
        places = (offsets[:-1].unsqueeze(1) + steps).clamp(max=rows.size(0) - 1)
        ages = (lengths.unsqueeze(1) - 1 - steps).clamp(min=0, max=self.longest)
        clicks = self.items(rows)[places] + self.price(prices.unsqueeze(1))[places] + self.ages(ages)
        last = clicks[torch.arange(lengths.size(0)), lengths - 1]
        fit = (self.key(clicks) * self.query(last).unsqueeze(1)).sum(2) / 32**0.5
        weights = torch.softmax(fit.masked_fill(~mask, -1e9), dim=1)
        session = (weights.unsqueeze(2) * self.value(clicks)).sum(1)
        return self.network(torch.cat((session, last), dim=1))


def train(shop: Shop, sessions: Sequence[NDArray[np.int64]], seed: int) -> NextItem:
    """Predict each session's last click from those before it."""
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = NextItem()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    parts = [session[:end] for session in sessions for end in range(2, len(session) + 1)]
    for _ in range(EPOCHS):
        for batch in np.array_split(random.permutation(len(parts)), len(parts) // BATCH):
            chosen = [parts[index] for index in batch]
            scores = model(transform(shop, request(shop, [one[:-1] for one in chosen])))
            target = torch.tensor([int(one[-1]) + 1 for one in chosen])
            loss = torch.nn.functional.cross_entropy(scores, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


def recall(scores: NDArray[np.float32], sessions: Sequence[NDArray[np.int64]]) -> float:
    """Return how often a session's last item is among the best scores; row 0 is no item."""
    best = np.argsort(-scores[:, 1:], axis=1)[:, :TOP]
    return float(np.mean([session[-1] in row for session, row in zip(sessions, best, strict=True)]))


def popularity(sessions: Sequence[NDArray[np.int64]], count: int) -> NDArray[np.float32]:
    """Return the same scores for every session: how often each item was clicked."""
    clicks = np.bincount(np.concatenate(sessions), minlength=ITEMS).astype(np.float32)
    return np.tile(np.concatenate(([0], clicks)), (count, 1)).astype(np.float32)


def split(shop: Shop) -> tuple[Sequence[NDArray[np.int64]], Sequence[NDArray[np.int64]]]:
    """Return the sessions to train with and those held out."""
    return shop.sessions[:-200], shop.sessions[-200:]


def answer(module: torch.nn.Module, shop: Shop, inputs: Arrays) -> NDArray[np.float32]:
    """Return the scores of PyTorch for a request."""
    with torch.inference_mode():
        return np.asarray(module(transform(shop, inputs)).numpy())


def config(name: str, backend: str, inputs: Mapping, outputs: Mapping, platform: str = "") -> str:
    """Return a config.pbtxt as Merlin writes it: protobuf's text format, a field per line."""
    tensors = "".join(
        f'{kind} {{\n  name: "{tensor}"\n  data_type: TYPE_{datatype}\n'
        + "".join(f"  dims: {size}\n" for size in dims)
        + "}\n"
        for kind, columns in (("input", inputs), ("output", outputs))
        for tensor, (datatype, dims) in columns.items()
    )
    return STEP_CONFIG.format(
        name=name,
        platform=f'platform: "{platform}"\n' if platform else "",
        tensors=tensors,
        parameters=TORCH_PARAMETERS if backend == "pytorch" else "",
        backend=backend,
    )


def export(folder: Path, shop: Shop, module: NextItem) -> None:
    """Write the steps and the executor that Merlin puts in front of them."""
    steps = {
        "0_transformworkflowtriton": ("python", RAGGED, RAGGED, ""),
        "1_predictpytorchtriton": ("pytorch", RAGGED, SCORES, "pytorch_libtorch"),
        "executor_model": ("python", RAGGED, SCORES, "merlin_executor"),
    }
    for name, (backend, inputs, outputs, platform) in steps.items():
        (folder / name / "1").mkdir(parents=True, exist_ok=True)
        (folder / name / "config.pbtxt").write_text(config(name, backend, inputs, outputs, platform))
    first = folder / "0_transformworkflowtriton/1"
    (first / "model.py").write_text(TRANSFORM)
    (first / "workflow").mkdir(exist_ok=True)
    (first / "workflow/statistics.json").write_text(json.dumps(statistics(shop)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(module).save(str(folder / "1_predictpytorchtriton/1/model.pt"))
    executor = folder / "executor_model/1"
    (executor / "model.py").write_text("from merlin.systems.triton.models.executor_model import *  # noqa\n")
    (executor / "ensemble").mkdir(exist_ok=True)
    (executor / "ensemble/metadata.json").write_text('{"versions": {"python": "3.11"}}')


def save_requests(file: Path, shop: Shop, module: NextItem, sessions: Sequence[NDArray[np.int64]]) -> None:
    """Write test inputs: requests with four sessions of 16 clicks, and the right answers of PyTorch."""
    long = [session for session in sessions if len(session) >= 6]
    lengths = ((6, 2, 5, 3), (1, 6, 4, 5), (4, 4, 4, 4))
    requests = [
        request(shop, [long[4 * row + place][:length] for place, length in enumerate(row_lengths)])
        for row, row_lengths in enumerate(lengths)
    ]
    inputs = {name: np.stack([one[name] for one in requests]) for name in RAGGED}
    right = np.stack([answer(module, shop, one) for one in requests])
    np.savez(file, **inputs, **{"outputs/next_item": right})


def main() -> int:
    """Train, compare, and export each shop's model."""
    torch.set_num_threads(1)  # equal weights on any number of cores; small models train fastest so
    enough = True
    for name, seed in SHOPS.items():
        shop = make_shop(name)
        known, held_out = split(shop)
        module = train(shop, known, seed)
        scores = answer(module, shop, request(shop, [session[:-1] for session in held_out]))
        found = recall(scores, held_out)
        baseline = recall(popularity(known, len(held_out)), held_out)
        print(f"{name}: recall@{TOP} {found:.2f}, popularity {baseline:.2f}")
        enough &= found >= LEAST_GAIN * baseline
        export(EXPORTS / name, shop, module)
        save_requests(EXPORTS / f"{name}.npz", shop, module, held_out)
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
