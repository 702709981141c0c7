"""The requests of the serving benchmarks: the same in every run and for every server."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tritonstack.client.codec import JSON_CONTENT_TYPE, content_type_for

WORDS = (Path(__file__).parents[1] / "words.txt").read_text().split()
TEXTS, SHORTEST, LONGEST = 2000, 3, 30


class Body(NamedTuple):
    """The body of a request."""

    data: bytes
    content_type: str = JSON_CONTENT_TYPE


def texts() -> list[str]:
    """Return English sentences of 5 to 38 tokens, 20 on average."""
    chosen = random.Random(2026)  # noqa: S311 - the same texts in every run, no secret
    return [
        " ".join(chosen.choices(WORDS, k=chosen.randint(SHORTEST, LONGEST))).capitalize() + "."
        for _ in range(TEXTS)
    ]


def text_bodies(items: Iterable[str]) -> list[Body]:
    """Return a request per text."""
    tensor = {"name": "TEXT", "datatype": "BYTES", "shape": [1, 1]}
    return [Body(json.dumps({"inputs": [{**tensor, "data": [text]}]}).encode()) for text in items]


def number_bodies(name: str, rows: NDArray[np.float32]) -> list[Body]:
    """Return a JSON request per row."""
    tensor = {"name": name, "datatype": "FP32", "shape": [1, rows.shape[1]]}
    lines = rows.astype(float).tolist()
    return [Body(json.dumps({"inputs": [{**tensor, "data": line}]}).encode()) for line in lines]


def binary_bodies(name: str, rows: NDArray[np.float32]) -> list[Body]:
    """Return a request in Triton's binary form per row; the answer is JSON."""
    tensor: dict[str, Any] = {"name": name, "datatype": "FP32", "shape": [1, *rows.shape[1:]]}
    bodies = []
    for row in rows:
        data = row.tobytes()
        head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": len(data)}}]}).encode()
        bodies.append(Body(head + data, content_type_for(len(head))))
    return bodies


def spread(bodies: Sequence[Body], count: int) -> list[int]:
    """Return the places of a few requests, evenly spread over all."""
    return [place * len(bodies) // count for place in range(count)]
