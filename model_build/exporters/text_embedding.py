"""A Hugging Face text encoder with its pooling: the framework's answers, and one ONNX graph of the whole."""

from __future__ import annotations

import inspect
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from safetensors import SafetensorError
from tokenizers import Tokenizer
from torch.nn import functional

from catalog.recipes import TextEmbeddingRecipe
from model_build.errors import ExportError
from model_build.graphs.onnx_file import OPSET, save_graph
from model_build.graphs.records import ExportedGraph
from model_build.sources import FetchedSource

Array = NDArray[Any]
LOAD_ERRORS = (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError)


class PooledEncoder(torch.nn.Module):
    """The encoder, pooling and normalisation as one module: token ids and mask in, one vector a text out."""

    def __init__(self, encoder: torch.nn.Module, recipe: TextEmbeddingRecipe) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = recipe.pooling
        self.normalize = recipe.normalize
        self.takes_token_types = "token_type_ids" in inspect.signature(encoder.forward).parameters

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """One vector for each row of ids."""
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if self.takes_token_types:
            inputs["token_type_ids"] = torch.zeros_like(input_ids)
        states = self.encoder(**inputs).last_hidden_state
        vectors = self._pool(states, attention_mask.unsqueeze(-1).to(states.dtype))
        return functional.normalize(vectors, p=2.0, dim=1) if self.normalize else vectors

    def _pool(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self.pooling == "cls":
            return states[:, 0]
        if self.pooling == "max":
            return states.masked_fill(mask == 0, torch.finfo(states.dtype).min).amax(dim=1)
        return (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1e-9)


class TextEmbeddingFramework:
    """A model loaded in PyTorch: what the served one is measured against."""

    def __init__(
        self, *, source: FetchedSource, recipe: TextEmbeddingRecipe, trust_remote_code: bool
    ) -> None:
        check_sentence_modules(source.folder, recipe)
        self._recipe = recipe
        with _quiet():
            encoder = _load_encoder(source.folder, trust_remote_code=trust_remote_code)
            self._tokenizer = _load_tokenizer(source.folder, trust_remote_code=trust_remote_code)
        self._module = PooledEncoder(encoder, recipe).eval()
        self.vocabulary_size = int(encoder.config.vocab_size)
        self._check_longest(encoder.config)

    def embed_tokens(self, input_ids: Array, attention_mask: Array) -> Array:
        """The framework's vectors for rows of token ids."""
        with torch.inference_mode():
            vectors: Array = self._module(
                torch.from_numpy(input_ids), torch.from_numpy(attention_mask)
            ).numpy()
        return vectors

    def tokenize(self, texts: Sequence[str]) -> tuple[Array, Array]:
        """Token ids and mask of texts, as the framework's own tokenizer makes them."""
        tokens = self._tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=self._recipe.max_length,
            return_tensors="np",
        )
        return tokens["input_ids"].astype(np.int64), tokens["attention_mask"].astype(np.int64)

    def served_tokenizer(self) -> str:
        """The tokenizer as one JSON text in which padding and truncation are spelt out."""
        tokenizer = Tokenizer.from_str(self._tokenizer.backend_tokenizer.to_str())
        tokenizer.enable_truncation(max_length=self._recipe.max_length)
        tokenizer.enable_padding(
            direction="right",
            pad_id=self._tokenizer.pad_token_id,
            pad_token=self._tokenizer.pad_token,
            pad_type_id=self._tokenizer.pad_token_type_id,
        )
        return str(tokenizer.to_str(pretty=False))

    def export(self, folder: Path) -> ExportedGraph:
        """Write the graph, with any batch and any sequence length."""
        batch, sequence = torch.export.Dim("batch", min=1), torch.export.Dim("sequence", min=1)
        # Sizes above 1, because the exporter takes a size of 1 for a constant; two tensors, because it takes
        # one that is passed twice for one input.
        tokens, mask = (torch.ones(2, min(7, self._recipe.max_length), dtype=torch.int64) for _ in range(2))
        with _quiet():
            try:
                program = torch.onnx.export(
                    self._module,
                    (tokens, mask),
                    dynamo=True,
                    opset_version=OPSET,
                    input_names=["input_ids", "attention_mask"],
                    output_names=["embedding"],
                    dynamic_shapes=({0: batch, 1: sequence}, {0: batch, 1: sequence}),
                    verbose=False,
                )
            except (torch.onnx.OnnxExporterError, RuntimeError) as error:
                raise ExportError(f"PyTorch cannot export this model to ONNX: {error}") from error
        if program is None:
            raise ExportError("PyTorch's exporter returned no graph")
        return save_graph(program.model, folder)

    def _check_longest(self, config: Any) -> None:
        """Run the longest text there may be: architectures count their positions in different ways."""
        longest = np.ones((1, self._recipe.max_length), dtype=np.int64)
        try:
            self.embed_tokens(longest, longest)
        except (IndexError, RuntimeError) as error:
            positions = getattr(config, "max_position_embeddings", "an unknown number of")
            raise ExportError(
                f"the model cannot take texts of {self._recipe.max_length} tokens ({error}); "
                f"it has {positions} positions",
                remedy="lower `recipe.max_length` in model.yaml",
            ) from error


def check_sentence_modules(folder: Path, recipe: TextEmbeddingRecipe) -> None:
    """Refuse a sentence-transformers model that does more, or other, than the recipe."""
    file = folder / "modules.json"
    if not file.is_file():
        return
    for module in json.loads(file.read_text(encoding="utf-8")):
        kind = str(module["type"]).rpartition(".")[2]
        if kind not in ("Transformer", "Pooling", "Normalize"):
            raise ExportError(
                f"the model ends in a layer of kind {kind}, which the recipe text-embedding does not export",
                remedy="choose a model made of Transformer, Pooling and Normalize",
            )
        if kind == "Pooling":
            _check_pooling(folder / module["path"] / "config.json", recipe)


def _check_pooling(file: Path, recipe: TextEmbeddingRecipe) -> None:
    if not file.is_file():
        return
    config = json.loads(file.read_text(encoding="utf-8"))
    flags = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens"}
    trained = [name for name, flag in flags.items() if config.get(f"pooling_mode_{flag}")]
    if trained and trained != [recipe.pooling]:
        raise ExportError(
            f"the model was trained with {' and '.join(trained)} pooling, the recipe says {recipe.pooling}",
            remedy=f"write `pooling: {trained[0]}` in model.yaml",
        )


def _load_encoder(folder: Path, *, trust_remote_code: bool) -> Any:
    try:
        encoder, report = transformers.AutoModel.from_pretrained(
            folder,
            use_safetensors=True,
            dtype=torch.float32,
            local_files_only=True,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
        )
    except LOAD_ERRORS as error:
        raise ExportError(f"transformers cannot load the model: {error}") from error
    # A pooler of the architecture's own is not used; anything else would be random numbers.
    missing = sorted(key for key in report["missing_keys"] if "pooler" not in key)
    missing += sorted(str(key) for key in report["mismatched_keys"])
    if missing:
        raise ExportError(
            f"the weights do not fill the model; these are missing: {', '.join(missing[:5])}",
            remedy="check that config.json and the safetensors file belong together",
        )
    return encoder.eval()


def _load_tokenizer(folder: Path, *, trust_remote_code: bool) -> Any:
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trust_remote_code
        )
    except LOAD_ERRORS as error:
        raise ExportError(
            f"transformers cannot load the tokenizer: {error}",
            remedy="the source needs tokenizer.json and tokenizer_config.json",
        ) from error
    if not tokenizer.is_fast or tokenizer.pad_token_id is None:
        lack = "padding token" if tokenizer.is_fast else "form that the tokenizers library can run"
        raise ExportError(f"the tokenizer has no {lack}", remedy="save the model with one that has")
    tokenizer.padding_side = "right"
    return tokenizer


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries' bars, notes and warnings out of the progress that the user is shown."""
    notes: Any = transformers.utils.logging
    notes.disable_progress_bar()
    notes.set_verbosity_error()
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
