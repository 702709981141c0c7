"""Select the files of a source that a model needs; only these are listed, fetched, hashed, and read."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tritonstack.base.error_kinds import SourceFileError, UntrustedPickleError
from tritonstack.base.errors import UsageError
from tritonstack.base.source_files import list_files
from tritonstack.base.yaml import closest
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import (
    GenerationRecipe,
    GraphRecipe,
    HuggingFaceRecipe,
    OnnxRecipe,
    PythonRecipe,
    ScikitLearnRecipe,
    TextEmbeddingRecipe,
    TorchScriptRecipe,
    TreesRecipe,
    TritonRecipe,
    VllmRecipe,
)
from tritonstack.files.sources.model_files import FILE_SCHEME

SAFE_WEIGHTS = "*.safetensors"
PICKLED_WEIGHTS = "pytorch_model*.bin"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle", "*.joblib")
CODE = "*.py"
OTHER_FRAMEWORKS = ("tf_model*.h5", "flax_model*.msgpack", "rust_model.ot")
"""The same weights for TensorFlow, Flax, and Rust, in repositories of the Hub."""
SENTENCE_MODULES = (f"[0-9]_*/{SAFE_WEIGHTS}", f"[0-9]_*/{PICKLED_WEIGHTS}")
"""Weights of sentence-transformers modules, whose folders start with a number."""


@dataclass(frozen=True)
class FileSelection:
    """Name patterns. One without a slash matches file names in any folder."""

    patterns: tuple[str, ...]
    weights: tuple[str, ...]
    """Weight patterns; the first that matches counts, and one must."""
    rejected: tuple[str, ...] = ()
    """Patterns of files to reject."""
    allowed: tuple[str, ...] = ()
    """Files to accept although `rejected` matches them."""
    exact: bool = False
    """Whether `weights` begins with a file name, not a pattern."""

    def holds(self, name: str) -> bool:
        """Return whether a file is wanted; names are relative to the source."""
        is_rejected = _matches(name, self.rejected) and not _matches(name, self.allowed)
        return _matches(name, self.patterns, whole=self.exact) and not is_rejected

    def has_weights(self, names: Iterable[str]) -> bool:
        """Return whether any of these files holds weights."""
        return any(_matches(name, self.weights, whole=self.exact) for name in names if self.holds(name))

    def missing(self, names: Sequence[str]) -> UsageError:
        """Describe a source that has these files, but no weights."""
        listing = ", ".join(sorted(names)[:8]) or "nothing"
        if self.exact:
            nearest = closest(self.weights[0], names)
            return SourceFileError(
                f"file not found: {self.weights[0]} (found: {listing})",
                remedy=f"did you mean {nearest!r}? Correct `recipe.file` in model.yaml"
                if nearest
                else "correct `recipe.file` in model.yaml, or the source",
            )
        pickles = sorted(name for name in names if any(Path(name).match(pattern) for pattern in PICKLES))
        if pickles:
            return UntrustedPickleError(
                f"its weights are {', '.join(pickles)}, a pickle, which can run code when loaded",
                remedy="in a sandbox, load the model once and save it again with `save_pretrained(folder)`, "
                "which writes safetensors; then use file://. If you trust its author, set "
                "`trust: {pickle: <reason>}` in model.yaml",
            )
        if self.weights == ("*",):
            return SourceFileError(
                f"no usable file (found: {listing})",
                remedy="name the folder that has them; Python files belong beside model.yaml",
            )
        return SourceFileError(
            f"no {' or '.join(self.weights)} file (found: {listing})",
            remedy="use the folder that holds them; pickled weights need `trust: {pickle: <reason>}`",
        )

    def among(self, folder: Path) -> list[str]:
        """Return the wanted files below a folder, sorted."""
        return [name for name in list_files(folder) if self.holds(name)]

    def weights_among(self, folder: Path) -> list[Path]:
        """Return the weight files, sorted."""
        names = self.among(folder)
        for pattern in self.weights:
            if any(_matches(name, (pattern,), whole=self.exact) for name in names):
                # Files next to an exact file belong to it, such as a graph's data.
                matches = names if self.exact else [name for name in names if _matches(name, (pattern,))]
                return [folder / name for name in matches]
        return []


TRANSFORMERS = FileSelection(
    (SAFE_WEIGHTS, "*.json", "*.txt", "*.model", "*.jinja"),
    (SAFE_WEIGHTS,),
    rejected=(f"*/{SAFE_WEIGHTS}", f"*/{PICKLED_WEIGHTS}"),
)
"""Patterns for safe weights, configuration, and vocabularies; inner folders hold other formats."""


def file_selection(spec: ModelSpec) -> FileSelection:
    """Return the patterns of a model's recipe."""
    match spec.recipe:
        case HuggingFaceRecipe() | VllmRecipe() | GenerationRecipe():
            return _for_transformers(spec)
        case OnnxRecipe(file=str(file)) | TorchScriptRecipe(file=str(file)) as recipe:
            return _exactly(file, *_beside(file, recipe))
        case TreesRecipe(file=file) | ScikitLearnRecipe(file=file):
            return _exactly(file)
        case TritonRecipe():
            return FileSelection(("*",), ("*",))  # the build reports code and pickles without trust
        case TorchScriptRecipe() | PythonRecipe():
            return _for_programs(spec)
        case _:
            return TRANSFORMERS


def _matches(name: str, patterns: Iterable[str], *, whole: bool = False) -> bool:
    last = name.rpartition("/")[2]
    return any(
        fnmatch.fnmatchcase(name if whole or "/" in pattern else last, pattern) for pattern in patterns
    )


def _beside(file: str, recipe: GraphRecipe) -> Iterator[str]:
    """Yield patterns of a graph's weights, and of the tokenizer or image processor in front of it."""
    if isinstance(recipe, OnnxRecipe):
        folder, _, name = file.rpartition("/")
        stem = name.removesuffix(".onnx")
        # A graph names its weight files; exporters use one of these names.
        for pattern in (f"{stem}.*data*", f"{stem}_data*", "*.data", "*_data", "*.weight", "*.weights"):
            yield f"{folder}/{pattern}" if folder else pattern
    if recipe.input != "tensors":
        for pattern in ("*.json", "*.txt", "*.model"):
            yield f"{recipe.processor}/{pattern}" if recipe.processor else pattern


def _exactly(file: str, *beside: str) -> FileSelection:
    return FileSelection((file, *beside), (file,), exact=True)


def _for_programs(spec: ModelSpec) -> FileSelection:
    """Return patterns for everything except pickles, code, and the Hub's copies of the weights.

    Python models also get code if it is local or trusted.
    """
    is_local = (spec.source or "").startswith(FILE_SCHEME) or spec.trust.remote_code is not None
    takes_code = isinstance(spec.recipe, PythonRecipe) and is_local
    pickles = PICKLES if spec.trust.pickle is None else ()
    copies = OTHER_FRAMEWORKS if (spec.source or "").startswith("hf://") else ()
    return FileSelection(("*",), ("*",), rejected=(*pickles, *copies, *(() if takes_code else (CODE,))))


def _for_transformers(spec: ModelSpec) -> FileSelection:
    patterns, weights = TRANSFORMERS.patterns, TRANSFORMERS.weights
    if spec.trust.remote_code is not None:
        patterns += (CODE,)
    if spec.trust.pickle is not None:
        patterns, weights = (*patterns, PICKLED_WEIGHTS), (*weights, PICKLED_WEIGHTS)
    modules = SENTENCE_MODULES if isinstance(spec.recipe, TextEmbeddingRecipe) else ()
    return FileSelection(patterns, weights, TRANSFORMERS.rejected, modules)
