"""Train neural collaborative filtering (NeuMF) per category, and compare it with a popularity baseline.

Without arguments it trains `food` and `fashion` into the folders of their models. In a SageMaker training job
it follows script mode: hyperparameters are arguments; SM_MODEL_DIR, SM_OUTPUT_DATA_DIR, and SM_CHANNEL_TRAIN
name the folders of the model, the metrics, and interactions.csv. All random numbers are seeded.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

HERE = Path(__file__).parent
CATEGORIES = {"food": 11, "fashion": 12}
"""Each category's seed: its users and items differ."""
USERS, ITEMS, TASTES, PER_USER = 400, 240, 6, 20
CANDIDATES, TOP = 100, 10
"""Each user's held-out item is ranked among 99 others; a hit is a place among the first 10."""
LEAST_GAIN = 1.5
"""Hit rate and NDCG must exceed the baseline's by this factor."""

Ids = NDArray[np.int64]
Score = Callable[[Ids, Ids], NDArray[np.float32]]


@dataclass(frozen=True)
class Interactions:
    """What users bought: `train` and `held_out` have rows of user and item; one item per user is held out."""

    users: int
    items: int
    train: Ids
    held_out: Ids


def make_interactions(category: str) -> list[tuple[int, int]]:
    """Return seeded interactions, in order of time: users prefer items of their taste, and popular ones."""
    random = np.random.default_rng(CATEGORIES[category])
    user_taste = random.dirichlet(np.full(TASTES, 0.15), USERS)
    item_taste = random.dirichlet(np.full(TASTES, 0.15), ITEMS)
    popularity = 0.7 * np.log(1 / random.permutation(np.arange(1, ITEMS + 1)))
    preference = 8.0 * user_taste @ item_taste.T + popularity
    order = np.argsort(-(preference + random.gumbel(size=preference.shape)), axis=1)[:, :PER_USER]
    return [(user, int(item)) for user in range(USERS) for item in random.permutation(order[user])]


def split(pairs: list[tuple[int, int]]) -> Interactions:
    """Hold out each user's last item."""
    last = dict(pairs)
    train = [(user, item) for user, item in pairs if last[user] != item]
    users, items = (1 + max(pair[index] for pair in pairs) for index in (0, 1))
    return Interactions(users, items, np.array(train), np.array(sorted(last.items())))


def load_interactions(category: str) -> Interactions:
    """Read interactions.csv of the channel `train`, or make the category's."""
    folder = os.environ.get("SM_CHANNEL_TRAIN")
    if folder is None:
        return split(make_interactions(category))
    with Path(folder, "interactions.csv").open(newline="", encoding="utf-8") as file:
        return split([(int(row["user"]), int(row["item"])) for row in csv.DictReader(file)])


class NeuMF(torch.nn.Module):
    """A product of factors beside a network over factors, as in the paper."""

    def __init__(self, users: int, items: int, factors: int) -> None:
        super().__init__()
        self.factors = torch.nn.ModuleList(torch.nn.Embedding(count, factors) for count in (users, items))
        self.inputs = torch.nn.ModuleList(torch.nn.Embedding(count, factors) for count in (users, items))
        self.network = torch.nn.Sequential(
            torch.nn.Linear(2 * factors, 2 * factors),
            torch.nn.ReLU(),
            torch.nn.Linear(2 * factors, factors),
            torch.nn.ReLU(),
        )
        self.score = torch.nn.Linear(2 * factors, 1)

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        """Return the probability that each user buys the item; all have the shape (rows, 1)."""
        rows = (user.squeeze(1), item.squeeze(1))
        product = self.factors[0](rows[0]) * self.factors[1](rows[1])
        deep = self.network(torch.cat((self.inputs[0](rows[0]), self.inputs[1](rows[1])), dim=1))
        return torch.sigmoid(self.score(torch.cat((product, deep), dim=1)))


def train(data: Interactions, *, factors: int, epochs: int, seed: int) -> NeuMF:
    """Train with four random items per bought one."""
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = NeuMF(data.users, data.items, factors).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-5)
    for epoch in range(epochs):
        users = np.repeat(data.train[:, 0], 5)
        items = random.integers(data.items, size=len(users))
        items[::5] = data.train[:, 1]
        bought = np.zeros(len(users), np.float32)
        bought[::5] = 1
        total = 0.0
        for batch in np.array_split(random.permutation(len(users)), len(users) // 1024 + 1):
            user, item, label = (torch.from_numpy(column[batch, None]) for column in (users, items, bought))
            loss = torch.nn.functional.binary_cross_entropy(model(user, item), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch) / len(users)
        if epoch in (0, epochs - 1):
            print(f"epoch {epoch + 1}: loss {total:.4f}")
    return model.eval()


def evaluate(data: Interactions, score: Score) -> dict[str, float]:
    """Return hit rate and NDCG at 10, from one call of `score` per user."""
    random = np.random.default_rng(0)
    bought = {user: set() for user in range(data.users)}
    for user, item in data.train:
        bought[user].add(item)
    places = []
    for user, item in data.held_out:
        others = [
            other for other in random.permutation(data.items) if other != item and other not in bought[user]
        ]
        items = np.array([item, *others[: CANDIDATES - 1]], np.int64)[:, None]
        scores = score(np.full_like(items, user), items)[:, 0]
        places.append(int((scores[1:] >= scores[0]).sum()))  # a tie counts against the model
    gains = [1 / np.log2(place + 2) if place < TOP else 0.0 for place in places]
    return {"hit_rate": float(np.mean([gain > 0 for gain in gains])), "ndcg": float(np.mean(gains))}


def popularity(data: Interactions) -> Score:
    """Return the baseline: every user gets the items that most users bought."""
    counts = np.bincount(data.train[:, 1], minlength=data.items).astype(np.float32)
    return lambda _, items: counts[items]


def score_of(model: torch.nn.Module) -> Score:
    """Return the scores of a module."""

    def score(users: Ids, items: Ids) -> NDArray[np.float32]:
        with torch.no_grad():
            return model(torch.from_numpy(users), torch.from_numpy(items)).numpy()

    return score


def save(model: NeuMF, data: Interactions, folder: Path) -> None:
    """Write model.pt as TorchScript, and answers.npz: requests with the answers of the untraced module."""
    folder.mkdir(parents=True, exist_ok=True)
    user, item = (torch.from_numpy(column[:, None].copy()) for column in data.held_out[:32].T)
    torch.jit.trace(model, (user, item)).save(folder / "model.pt")
    right = score_of(model)(user.numpy(), item.numpy())
    np.savez(
        folder / "answers.npz", **{"user": user.numpy(), "item": item.numpy(), "outputs/OUTPUT__0": right}
    )


def run(category: str, folder: Path, *, factors: int, epochs: int, seed: int) -> bool:
    """Train one category; print its metrics, and return whether it beats the baseline."""
    data = load_interactions(category)
    model = train(data, factors=factors, epochs=epochs, seed=seed)
    metrics = {"ncf": evaluate(data, score_of(model)), "popularity": evaluate(data, popularity(data))}
    for name, values in metrics.items():
        print(f"{category}: {name}: hit rate@{TOP} {values['hit_rate']:.3f}, NDCG@{TOP} {values['ndcg']:.3f}")
    save(model, data, folder)
    output = os.environ.get("SM_OUTPUT_DATA_DIR")
    if output is not None:
        Path(output).mkdir(parents=True, exist_ok=True)
        Path(output, "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
    return all(metrics["ncf"][key] >= LEAST_GAIN * metrics["popularity"][key] for key in ("hit_rate", "ndcg"))


def main() -> int | str:
    """Train one category as a training job, or all for this repository."""
    torch.set_num_threads(1)  # equal weights on any number of cores; small models train fastest so
    parser = argparse.ArgumentParser(description="Train neural collaborative filtering.")
    parser.add_argument("--category", choices=sorted(CATEGORIES), help="the only category; required in a job")
    parser.add_argument("--factors", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--model-dir", type=Path, default=os.environ.get("SM_MODEL_DIR"))
    options = parser.parse_args()
    if options.model_dir and not options.category:
        parser.error("--category is required with --model-dir or SM_MODEL_DIR")
    beaten = []
    for category in [options.category] if options.category else CATEGORIES:
        folder = options.model_dir or HERE / "models" / f"ncf-{category}" / "weights"
        beaten.append(
            run(category, folder, factors=options.factors, epochs=options.epochs, seed=options.seed)
        )
        print(f"{category}: wrote {folder}")
    return 0 if all(beaten) else "the model does not beat the popularity baseline"


if __name__ == "__main__":
    sys.exit(main())
