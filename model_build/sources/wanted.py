"""Which files of a source a model needs: only these are listed, fetched, hashed and read."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tritonstack.base.source_files import list_files
from tritonstack.project.files.model_files import FILE_SCHEME
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.recipes import (
    HuggingFaceRecipe,
    OnnxRecipe,
    PythonRecipe,
    TextEmbeddingRecipe,
    TorchScriptRecipe,
    TreesRecipe,
    VllmRecipe,
)

SAFE_WEIGHTS = "*.safetensors"
PICKLED_WEIGHTS = "pytorch_model*.bin"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle", "*.joblib")
CODE = "*.py"
SENTENCE_MODULES = (f"[0-9]_*/{SAFE_WEIGHTS}", f"[0-9]_*/{PICKLED_WEIGHTS}")
"""Weights of sentence-transformers' modules, whose folders begin with their number."""


@dataclass(frozen=True)
class WantedFiles:
    """Patterns of names. One without a slash is compared with a file's name, in whatever folder."""

    patterns: tuple[str, ...]
    weights: tuple[str, ...]
    """Of those the ones that hold the model; the first that is there counts, and one has to be."""
    refused: tuple[str, ...] = ()
    """Files that are not wanted, whatever else says so."""
    allowed: tuple[str, ...] = ()
    """Files that are wanted although `refused` names them."""
    exact: bool = False
    """Whether `weights` begins with the name of one file rather than a pattern."""

    def holds(self, name: str) -> bool:
        """Whether a file of this name is wanted; names are relative to the source."""
        is_refused = _matches(name, self.refused) and not _matches(name, self.allowed)
        return _matches(name, self.patterns, whole=self.exact) and not is_refused

    def has_weights(self, names: Iterable[str]) -> bool:
        """Whether any of these files holds the model."""
        return any(_matches(name, self.weights, whole=self.exact) for name in names if self.holds(name))

    def among(self, folder: Path) -> list[str]:
        """The wanted files below a folder, in order."""
        return [name for name in list_files(folder) if self.holds(name)]

    def weights_among(self, folder: Path) -> list[Path]:
        """The files that hold the model, in order."""
        names = self.among(folder)
        for pattern in self.weights:
            if any(_matches(name, (pattern,), whole=self.exact) for name in names):
                # What lies beside an exact file is what it cannot do without, such as a graph's data.
                found = names if self.exact else [name for name in names if _matches(name, (pattern,))]
                return [folder / name for name in found]
        return []


TRANSFORMERS = WantedFiles(
    (SAFE_WEIGHTS, "*.json", "*.txt", "*.model", "*.jinja"),
    (SAFE_WEIGHTS,),
    refused=(f"*/{SAFE_WEIGHTS}", f"*/{PICKLED_WEIGHTS}"),
)
"""Weights that cannot run code, configuration, vocabularies; weights in inner folders are other forms."""


def wanted_files(spec: ModelSpec) -> WantedFiles:
    """What a model's recipe reads of its source."""
    match spec.recipe:
        case HuggingFaceRecipe() | VllmRecipe():
            return _for_transformers(spec)
        case OnnxRecipe(file=file):
            folder, _, name = file.rpartition("/")
            stem = name.removesuffix(".onnx")
            # A graph names the files of its weights itself; exporters call them one of these.
            beside = (f"{stem}.*data*", f"{stem}_data*", "*.data", "*_data", "*.weight", "*.weights")
            return _exactly(file, *(f"{folder}/{pattern}" if folder else pattern for pattern in beside))
        case TreesRecipe(file=file) | TorchScriptRecipe(file=str(file)):
            return _exactly(file)
        case TorchScriptRecipe() | PythonRecipe():
            return _for_programs(spec)
        case _:
            return TRANSFORMERS


def _matches(name: str, patterns: Iterable[str], *, whole: bool = False) -> bool:
    last = name.rpartition("/")[2]
    return any(
        fnmatch.fnmatchcase(name if whole or "/" in pattern else last, pattern) for pattern in patterns
    )


def _exactly(file: str, *beside: str) -> WantedFiles:
    return WantedFiles((file, *beside), (file,), exact=True)


def _for_programs(spec: ModelSpec) -> WantedFiles:
    """All but pickles and code; a model in Python also gets code, from its own repository or if trusted."""
    own = (spec.source or "").startswith(FILE_SCHEME) or spec.trust.remote_code is not None
    takes_code = isinstance(spec.recipe, PythonRecipe) and own
    pickles = PICKLES if spec.trust.pickle is None else ()
    return WantedFiles(("*",), ("*",), refused=(*pickles, *(() if takes_code else (CODE,))))


def _for_transformers(spec: ModelSpec) -> WantedFiles:
    patterns, weights = TRANSFORMERS.patterns, TRANSFORMERS.weights
    if spec.trust.remote_code is not None:
        patterns += (CODE,)
    if spec.trust.pickle is not None:
        patterns, weights = (*patterns, PICKLED_WEIGHTS), (*weights, PICKLED_WEIGHTS)
    modules = SENTENCE_MODULES if isinstance(spec.recipe, TextEmbeddingRecipe) else ()
    return WantedFiles(patterns, weights, TRANSFORMERS.refused, modules)
