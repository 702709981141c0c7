"""What the peers compute with: texts, images, and trees in their own libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.forms import Form

Array = NDArray[Any]
Graph = Callable[[Array, Array], Array]


class Engine(Protocol):
    """A loaded model."""

    def compute(self, rows: Sequence[Any]) -> Array:
        """Return one answer per row."""


class Texts:
    """A tokenizer and a text encoder. Texts of similar length are padded and computed together."""

    def __init__(self, graph: Graph, folder: Path, form: Form) -> None:
        from tokenizers import Tokenizer  # noqa: PLC0415 - only this engine needs it

        self._graph, self._form = graph, form
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._padding = int((self._tokenizer.padding or {}).get("pad_id", 0))
        self._tokenizer.no_padding()

    def compute(self, rows: Sequence[str]) -> Array:
        """Return one embedding per text."""
        ids = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(rows))]
        order = list(range(len(ids)))
        if self._form.sort:
            order.sort(key=lambda index: len(ids[index]))
        results: list[Array] = [np.empty(0, np.float32)] * len(ids)
        for group in _groups(order, self._form.group):
            answers = self._run([ids[index] for index in group])
            for index, row in zip(group, answers, strict=True):
                results[index] = row
        return np.stack(results)

    def _run(self, texts: Sequence[Sequence[int]]) -> Array:
        shape = (len(texts), max(map(len, texts)))
        ids, mask = np.full(shape, self._padding, np.int64), np.zeros(shape, np.int64)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        return self._graph(ids, mask)


class Images:
    """An image classifier; rows are scaled pixels."""

    def __init__(self, graph: Callable[[Array], Array], form: Form) -> None:
        self._graph, self._form = graph, form

    def compute(self, rows: Sequence[Array]) -> Array:
        """Return the scores of each image."""
        groups = _groups(rows, self._form.group)
        return np.concatenate([self._graph(np.stack(group)) for group in groups])


class Trees:
    """Trees of XGBoost; rows are features."""

    def __init__(self, file: Path, form: Form) -> None:
        import xgboost  # noqa: PLC0415 - only this engine needs it

        self._booster = xgboost.Booster({"nthread": form.threads}, model_file=file)

    def compute(self, rows: Sequence[Array]) -> Array:
        """Return the probabilities of both classes for each row."""
        positive = self._booster.inplace_predict(np.stack(rows))
        return np.stack([1 - positive, positive], axis=1)


def load_engine(kind: str, folder: Path, form: Form) -> Engine:
    """Load the model in a folder."""
    return ENGINES[kind](folder, form)


def _groups(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]


def _session(folder: Path, form: Form) -> Any:
    import onnxruntime as ort  # noqa: PLC0415 - only some engines need it

    settings = ort.SessionOptions()
    settings.intra_op_num_threads = form.threads
    return ort.InferenceSession(folder / "model.onnx", settings, providers=["CPUExecutionProvider"])


def _text_onnx(folder: Path, form: Form) -> Engine:
    """Load a graph that contains the pooling."""
    session = _session(folder, form)

    def run(ids: Array, mask: Array) -> Array:
        return session.run(None, {"input_ids": ids, "attention_mask": mask})[0]

    return Texts(run, folder, form)


def _text_torch(folder: Path, form: Form) -> Engine:
    """Load the framework's model; embeddings are the normalized mean of the token vectors."""
    import torch  # noqa: PLC0415 - only some engines need it
    from transformers import AutoModel  # noqa: PLC0415

    torch.set_num_threads(form.threads)
    model = AutoModel.from_pretrained(folder).eval()

    @torch.inference_mode()
    def run(ids: Array, mask: Array) -> Array:
        attention = torch.from_numpy(mask)
        vectors = model(input_ids=torch.from_numpy(ids), attention_mask=attention).last_hidden_state
        weights = attention.unsqueeze(-1).to(vectors.dtype)
        mean = (vectors * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean).numpy()

    return Texts(run, folder, form)


def _image_onnx(folder: Path, form: Form) -> Engine:
    session = _session(folder, form)
    name = session.get_inputs()[0].name
    return Images(lambda pixels: session.run(None, {name: pixels})[0], form)


def _trees_xgboost(folder: Path, form: Form) -> Engine:
    return Trees(folder / "model.json", form)


ENGINES: dict[str, Callable[[Path, Form], Engine]] = {
    "text-onnx": _text_onnx,
    "text-torch": _text_torch,
    "image-onnx": _image_onnx,
    "trees-xgboost": _trees_xgboost,
}


def loader(kind: str, folder: Path, form: Form) -> Callable[[], Engine]:
    """Return a function that loads the model, and that other processes can receive."""
    return partial(load_engine, kind, folder, form)
