"""Read the settings of a sentence-transformers model, as saved by old and new versions.

modules.json lists the modules: Transformer, Pooling, Dense, Normalize. Each has a folder with a config.json.
Old versions write one flag per pooling mode and `max_seq_length`; new ones write `pooling_mode`, and keep the
maximum length in tokenizer_config.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast, get_args

from model_build.errors import ExportError, FieldError
from model_build.sources.base import read_settings_file
from tritonstack.files.model.recipes import LONGEST_TEXT, PoolingMode, TextEmbeddingRecipe

MODULES = "modules.json"
SENTENCE_CONFIG = "config_sentence_transformers.json"
POOLING_FLAGS: Mapping[str, PoolingMode] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Old names, in the order of joined poolings."""
TRANSFORMER_CONFIGS = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "processing_kwargs": (None, {}),
    "query_length": (None,),
    "document_length": (None,),
    "query_expansion": (None,),
}
"""Settings of the Transformer module that change answers, with their neutral values."""


@dataclass(frozen=True)
class TransformerTask:
    """What a Transformer module computes, in sentence-transformers' words."""

    name: str
    module_output: str
    model_output: str
    recipe: str
    """The recipe that exports it."""


ENCODING = TransformerTask("feature-extraction", "token_embeddings", "last_hidden_state", "text-embedding")
SENTENCE = (None, "sentence_embedding")


@dataclass(frozen=True)
class Dense:
    """A linear layer after the pooling, with its activation."""

    folder: Path
    in_features: int
    out_features: int
    bias: bool
    activation: str
    residual: bool


@dataclass(frozen=True)
class SourcedValue:
    """A value, and the source file that states it."""

    value: Any
    file: str


@dataclass(frozen=True)
class SentenceSettings:
    """What a source states about its sentence embeddings."""

    transformer: Path
    """Folder of the transformers model and its tokenizer."""
    pooling: SourcedValue
    normalize: SourcedValue
    """Whether the last module scales vectors to length 1."""
    max_length: SourcedValue | None
    """Maximum text length, if the source sets it."""
    usual_length: int | None
    """Default maximum length: what the tokenizer and the positions allow."""
    lowercase: bool
    prompt: SourcedValue | None
    """Default prompt of sentence-transformers."""
    dimensions: int | None
    """How many values of a vector sentence-transformers returns, if it cuts it."""
    layers: tuple[Dense | None, ...]
    """Layers after pooling, in order; None scales to length 1."""


def fill_recipe(recipe: TextEmbeddingRecipe, settings: SentenceSettings) -> TextEmbeddingRecipe:
    """Fill the recipe from the source; raise FieldError for contradictions."""
    if settings.prompt is not None and "prompt" not in recipe.overrides:
        raise FieldError(
            ("recipe", "overrides"),
            f"{settings.prompt.file} in the source sets the prompt {settings.prompt.value!r}, "
            "which the recipe text-embedding does not add",
            remedy="let clients send it, and set `overrides: {prompt: <reason>}`",
        )
    stated = recipe.modes
    pooling = _chosen(recipe, "pooling", stated, settings.pooling)
    normalize = _chosen(recipe, "normalize", recipe.normalize, settings.normalize)
    length = recipe.max_length
    if settings.max_length is not None:
        length = _chosen(recipe, "max_length", length, settings.max_length)
    length = length or settings.usual_length or recipe.usual_length
    if length > LONGEST_TEXT:
        raise FieldError(
            ("recipe", "max_length"),
            f"the source allows {length} tokens; the recipe allows at most {LONGEST_TEXT}",
            remedy="set `max_length` and `overrides: {max_length: <reason>}`",
        )
    return recipe.model_copy(update={"pooling": pooling, "normalize": normalize, "max_length": length})


def _chosen(recipe: TextEmbeddingRecipe, field: str, stated: Any, source: SourcedValue) -> Any:
    if stated is None:
        return source.value
    if stated != source.value and field not in recipe.overrides:
        raise FieldError(
            ("recipe", field),
            f"the recipe has {_shown(stated)}; {source.file} in the source has {_shown(source.value)}",
            remedy=f"remove `{field}` to use the source's value, or set `overrides: {{{field}: <reason>}}`",
        )
    return stated


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return " and ".join(value) if isinstance(value, tuple) else str(value)


def read_settings(folder: Path) -> SentenceSettings | None:
    """Read the settings of a source; None if it is not a sentence-transformers model."""
    if not (folder / MODULES).is_file():
        return None
    modules = [module_of(item) for item in read_settings_file(folder, MODULES, list)]
    kinds = [kind for kind, _ in modules]
    if kinds[:2] != ["Transformer", "Pooling"]:
        raise ExportError(
            f"{MODULES} lists {', '.join(kinds) or 'no module'}; expected Transformer, then Pooling",
            remedy="choose a model with these modules, or use a recipe of kind python",
        )
    transformer, pooling = (path for _, path in modules[:2])
    if not (folder / transformer / "config.json").is_file():
        place = (PurePosixPath(transformer) / "config.json").as_posix()
        raise ExportError(
            f"{MODULES}: the transformer folder {transformer or '.'!r} has no {place}",
            remedy="fetch or copy the missing files too",
        )
    layers = [_layer(folder, kind, path) for kind, path in modules[2:] if kind != "Dropout"]
    normalize = bool(layers) and layers[-1] is None
    config, name = transformer_config(folder, transformer)
    stated, usual = lengths_of(folder, transformer, config, name)
    return SentenceSettings(
        transformer=folder / transformer,
        pooling=_pooling(folder, f"{pooling}/config.json"),
        normalize=SourcedValue(normalize, MODULES),
        max_length=stated,
        usual_length=usual,
        lowercase=bool(config.get("do_lower_case")),
        prompt=prompt_of(folder),
        dimensions=_dimensions(folder),
        layers=tuple(layers[:-1] if normalize else layers),
    )


_POSITIONS_AFTER_PADDING = (
    *("camembert", "data2vec-text", "ibert", "longformer", "mpnet", "roberta", "roberta-prelayernorm"),
    *("xlm-roberta", "xlm-roberta-xl", "xmod"),
)
"""Model types whose first position is the one after the padding token's id."""
_SAVE_AGAIN = "save the model again with sentence-transformers, which writes this file"


def module_of(item: Any) -> tuple[str, str]:
    """Return the kind and the folder of a module."""
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        raise ExportError(
            f"{MODULES}: expected modules with `type` and `path`, got {item!r}", remedy=_SAVE_AGAIN
        )
    name, path = item["type"], item.get("path", "")
    package, _, kind = name.rpartition(".")
    if package.partition(".")[0] != "sentence_transformers":
        raise ExportError(
            f"{MODULES} names {name}, Python code in the source, which is not run",
            remedy="choose a model of sentence-transformers' own modules, or use a recipe of kind python",
        )
    if not isinstance(path, str) or PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ExportError(f"{MODULES}: {path!r} is not a folder of the source", remedy="correct its `path`")
    return kind, path


def _layer(folder: Path, kind: str, path: str) -> Dense | None:
    if kind not in ("Dense", "Normalize"):
        raise ExportError(
            f"{MODULES}: the recipe text-embedding does not export the module {kind}",
            remedy="choose a model of Transformer, Pooling, Dense and Normalize, or use a recipe of kind "
            "python",
        )
    name = f"{path}/config.json"
    config = read_settings_file(folder, name, required=kind == "Dense")
    for key in ("module_input_name", "module_output_name"):
        if config.get(key) not in SENTENCE:
            raise ExportError(
                f"{name}: {key} is {config[key]!r}; only layers on sentence_embedding are exported",
                remedy="use a recipe of kind python",
            )
    if kind == "Normalize":
        return None
    sizes = [config.get(key) for key in ("in_features", "out_features")]
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        raise ExportError(
            f"{name}: expected positive in_features and out_features, got {sizes}", remedy=_SAVE_AGAIN
        )
    activation = config.get("activation_function", "torch.nn.modules.activation.Tanh")
    return Dense(
        folder / path,
        cast("int", sizes[0]),
        cast("int", sizes[1]),
        bias=config.get("bias", True) is True,
        activation=str(activation),
        residual=config.get("use_residual", False) is True,
    )


def _pooling(folder: Path, name: str) -> SourcedValue:
    config = read_settings_file(folder, name, required=True)
    flags = {key: value for key, value in config.items() if key.startswith("pooling_mode_")}
    odd = [key for key, value in flags.items() if value and not (value is True and key in POOLING_FLAGS)]
    if odd or (flags and "pooling_mode" not in config and not any(flags.values())):
        reason = f"{odd[0]} is {flags[odd[0]]!r}" if odd else "no pooling mode is true"
        raise ExportError(
            f"{name}: {reason}; expected at least one of {', '.join(POOLING_FLAGS)} to be true, others false",
            remedy="save the model again with sentence-transformers, or use a recipe of kind python",
        )
    flagged = [mode for flag, mode in POOLING_FLAGS.items() if config.get(flag)]
    stated = config.get("pooling_mode", flagged or "mean")
    modes = [stated] if isinstance(stated, str) else stated
    allowed = get_args(PoolingMode)
    if not isinstance(modes, list) or not modes or not all(mode in allowed for mode in modes):
        raise ExportError(
            f"{name}: unknown pooling_mode {stated!r}; allowed: {', '.join(allowed)}",
            remedy="use a recipe of kind python",
        )
    return SourcedValue(tuple(modes), name)


def transformer_config(
    folder: Path, path: str, task: TransformerTask = ENCODING
) -> tuple[dict[str, Any], str]:
    """Read the settings of the Transformer module, and their file's name; reject those of other tasks."""
    names = [(PurePosixPath(path) / name).as_posix() for name in TRANSFORMER_CONFIGS]
    name = next((name for name in names if (folder / name).is_file()), names[0])
    config = read_settings_file(folder, name)
    neutral = {
        "transformer_task": (None, task.name),
        "module_output_name": (None, task.module_output),
        **NEUTRAL,
    }
    for key, allowed in neutral.items():
        if config.get(key) not in allowed:
            raise ExportError(
                f"{name}: {key} is {config[key]!r}, which the recipe {task.recipe} does not apply",
                remedy="use a recipe of kind python",
            )
    modalities = config.get("modality_config")
    text = modalities.get("text") if isinstance(modalities, dict) else None
    output = text.get("method_output_name") if isinstance(text, dict) else None
    if output not in (None, task.model_output):
        raise ExportError(
            f"{name}: the answers come from {output!r}; only {task.model_output} is exported",
            remedy="use a recipe of kind python",
        )
    return config, name


def lengths_of(
    folder: Path, path: str, config: Mapping[str, Any], name: str
) -> tuple[SourcedValue | None, int | None]:
    """Return the maximum length that the source sets, and the one its tokenizer and positions allow."""
    usual = tokens_allowed(folder, path)
    longest = config.get("max_seq_length")
    if longest is not None:
        if type(longest) is not int or longest < 1:
            raise ExportError(
                f"{name}: max_seq_length is {longest!r}; expected a positive integer or null",
                remedy="correct it",
            )
        return SourcedValue(longest, name), usual
    if "transformer_task" in config and usual is not None:
        tokenizer = (PurePosixPath(path) / "tokenizer_config.json").as_posix()
        return SourcedValue(usual, tokenizer), usual
    return None, usual


def tokens_allowed(folder: Path, path: str = ".") -> int | None:
    """Return the most tokens that the tokenizer and the positions of a source allow; None if unknown."""

    def settings(name: str) -> dict[str, Any]:
        inner = (PurePosixPath(path) / name).as_posix()
        content: dict[str, Any] = read_settings_file(folder, inner)
        return content

    config, bounds = settings("config.json"), [settings("tokenizer_config.json").get("model_max_length")]
    positions, padding = config.get("max_position_embeddings"), config.get("pad_token_id")
    if isinstance(positions, int):
        is_offset = config.get("model_type") in _POSITIONS_AFTER_PADDING
        bounds.append(positions - padding - 1 if is_offset and isinstance(padding, int) else positions)
    return min((bound for bound in bounds if isinstance(bound, int) and bound > 1), default=None)


def _dimensions(folder: Path) -> int | None:
    """Return truncate_dim, if the source has one."""
    dimensions = read_settings_file(folder, SENTENCE_CONFIG).get("truncate_dim")
    if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
        raise ExportError(
            f"{SENTENCE_CONFIG}: truncate_dim is {dimensions!r}; expected a positive integer or null",
            remedy="correct it",
        )
    return dimensions


def prompt_of(folder: Path) -> SourcedValue | None:
    """Return the default prompt, if the source has one."""
    name = SENTENCE_CONFIG
    config = read_settings_file(folder, name)
    prompts, default = config.get("prompts"), config.get("default_prompt_name")
    text = prompts.get(default) if isinstance(prompts, dict) and isinstance(default, str) else None
    return SourcedValue(text, name) if text else None
