"""The settings that `tritonstack tune` can choose for a model: what files can express, and what transfers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tritonstack.base.yaml import Document, load_yaml, value_at
from tritonstack.facts.threads import OPENMP
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import (
    EnsembleRecipe,
    GenerationRecipe,
    HuggingFaceRecipe,
    PythonRecipe,
    TextRecipe,
    TritonRecipe,
)
from tritonstack.files.model.triton_options import Optimization
from tritonstack.files.scaffold.yaml_edits import set_value, with_changes
from tritonstack_sizing.tuning.spaces import Dimension

MAIN_PART = "model"
"""The computing part of a text or image model."""
BATCH_TOKENS = 128
"""What a text model has without `batch_tokens`."""
TOKENS = (64, 128, 256, 512)
DELAYS_US = (0, 1000, 5000)
MOST_BATCH = 256
ON_IMAGE = (
    "runs in Triton's {backend} backend, of which this server has a Python stand-in: "
    "measure it on the real image"
)
_PATHS: Mapping[str, tuple[str, ...]] = {
    "instances": ("triton", "instances"),
    "queue_delay_us": ("batching", "queue_delay_us"),
    "max_batch": ("batching", "max_batch"),
    "batch_tokens": ("recipe", "batch_tokens"),
    "precision": ("precision",),
    "one_model": ("recipe", "one_model"),
}
_BUILT = ("precision", "one_model")


@dataclass(frozen=True)
class Setting:
    """A field of a file and the values to try; `model` is empty for a variable of the endpoint."""

    model: str
    field: str
    dimension: Dimension

    @property
    def is_built(self) -> bool:
        """Whether another value needs another build."""
        return self.field in _BUILT

    @classmethod
    def of(cls, model: str, field: str) -> Setting:
        """Return a setting without values to search."""
        return cls(model, field, Dimension(f"{model}: {field}", (None,), 0))

    def edit(self, text: str, value: Any, *, file: Path) -> str:
        """Return the text of a model.yaml with a value; raise UneditableFileError if its form prevents it."""
        return set_value(text, _PATHS[self.field], self._written(load_yaml(text), value), file=file)

    def change(self, data: Any, value: Any) -> Any:
        """Return the data of a model.yaml with a value."""
        *path, name = _PATHS[self.field]
        return with_changes(data, path, {name: self._written(data, value)})

    def _written(self, data: Any, value: Any) -> Any:
        """Return what model.yaml has for a value: for instances, its group with another count."""
        if self.field != "instances":
            return value
        groups = value_at(data, _PATHS[self.field]) or [{}]
        return [{**groups[0], "count": value}]


@dataclass(frozen=True)
class SkippedSetting:
    """A field that is not searched, and why."""

    model: str
    field: str
    reason: str


@dataclass(frozen=True)
class Part:
    """The computing part of a model in a repository."""

    folder: str
    backend: str
    instances: int


Found = tuple[list[Setting], list[SkippedSetting]]


def has_small_batches(spec: ModelSpec) -> bool:
    """Return whether a CPU build puts tokenizer and graph into one model, which takes batch_tokens."""
    recipe, triton = spec.recipe, spec.triton
    return (
        isinstance(recipe, TextRecipe)
        and recipe.kind in ("text-embedding", "text-classification", "text-pair-classification")
        and recipe.input == "text"
        and recipe.format == "onnx"
        and recipe.one_model is not False
        and spec.precision in ("fp32", "int8")
        and not (triton.config or triton.parameters)
        and triton.optimization == Optimization()
    )


def parts(repository: Path, name: str, models: Mapping[str, Document[ModelSpec]]) -> dict[str, Part]:
    """Return the computing part of each model of an artifact, by model."""
    # It needs packages of builds, whose absence the command reports first.
    from model_build.repository.config import CONFIG_NAME, read_config  # noqa: PLC0415

    folders = {entry.name for entry in repository.iterdir() if entry.is_dir()}
    members = {}
    for model, folder in _folders(name, models, folders).items():
        if folder in folders:
            config = read_config(repository / folder / CONFIG_NAME)
            instances = sum(max(1, group.count) for group in config.instance_group)
            members[model] = Part(folder, config.backend, max(1, instances))
    return members


def _folders(name: str, models: Mapping[str, Document[ModelSpec]], existing: set[str]) -> dict[str, str]:
    """Return the folder of the computing part of each model, as model_build names them."""
    spec = models[name].record
    recipe = spec.recipe
    computing: dict[str, str] = {}
    if isinstance(recipe, PythonRecipe):
        computing[name] = f"{name}-logic" if recipe.calls else name
    elif not isinstance(recipe, EnsembleRecipe | TritonRecipe):
        computing[name] = MAIN_PART if spec.layout == "ensemble" else name
    for member in spec.members:
        prefix = member
        if isinstance(recipe, PythonRecipe):
            pattern = re.compile(rf"{re.escape(member)}-[0-9a-f]{{12}}")
            prefix = next((folder for folder in sorted(existing) if pattern.fullmatch(folder)), member)
        for model, folder in _folders(member, models, existing).items():
            computing.setdefault(model, prefix if folder == member else f"{prefix}-{folder}")
    return computing


def served_settings(
    spec: ModelSpec, part: Part | None, *, cores: int, real: bool, cores_transfer: bool
) -> Found:
    """Return the settings of a model that config.pbtxt holds; `real`: the server has NVIDIA's backends."""
    settings: list[Setting] = []
    skipped: list[SkippedSetting] = []
    reason = _why_fixed(spec, part, real=real)
    if reason or part is None:
        return [], [SkippedSetting(spec.name, "all", reason)]
    candidates: list[tuple[str, tuple[Any, ...], Any, str]] = [
        (
            "instances",
            (*_powers(2 * cores), cores),
            part.instances,
            _why_no_instances(spec, cores_transfer=cores_transfer),
        ),
        ("queue_delay_us", DELAYS_US, spec.batching.queue_delay_us, _why_no_delay(spec)),
        ("max_batch", *_batches(spec)),
    ]
    if has_small_batches(spec) and isinstance(spec.recipe, TextRecipe):
        candidates.append(("batch_tokens", TOKENS, spec.recipe.batch_tokens or BATCH_TOKENS, ""))
    for field, values, now, why in candidates:
        if why:
            skipped.append(SkippedSetting(spec.name, field, why))
        elif len(values := tuple(sorted({*values, now}))) > 1:
            settings.append(
                Setting(spec.name, field, Dimension(f"{spec.name}: {field}", values, values.index(now)))
            )
    return settings, skipped


def built_settings(spec: ModelSpec, *, real: bool) -> Found:
    """Return the settings of a model that need another build."""
    recipe = spec.recipe
    if not isinstance(recipe, HuggingFaceRecipe) or recipe.format != "onnx":
        return [], []
    if spec.precision not in ("fp32", "int8"):
        why = "`auto` measures it in each build" if spec.precision == "auto" else "chosen for its hardware"
        return [], [SkippedSetting(spec.name, "precision", why)]
    settings: list[Setting] = []
    skipped: list[SkippedSetting] = []
    if has_small_batches(spec):
        settings.append(_named(spec, "precision", ("fp32", "int8"), spec.precision))
        if real:
            settings.append(_named(spec, "one_model", (True, False), now=True))
        else:
            skipped.append(SkippedSetting(spec.name, "one_model", ON_IMAGE.format(backend="onnxruntime")))
    elif real:
        settings.append(_named(spec, "precision", ("fp32", "int8"), spec.precision))
    else:
        skipped.append(SkippedSetting(spec.name, "precision", ON_IMAGE.format(backend="onnxruntime")))
    openvino = (
        "another CPU decides (AVX512_BF16, AMX): measure `precision: bf16` on the endpoint's instance type"
    )
    return settings, [*skipped, SkippedSetting(spec.name, "precision: bf16", openvino)]


def thread_setting(variables: Mapping[str, str], cores: int) -> Setting:
    """Return the threads of each instance, a variable of the endpoint; None leaves them to its vCPUs."""
    now = int(variables[OPENMP]) if variables.get(OPENMP, "").isdecimal() else None
    # A number that is written down cannot become none: only other numbers are tried then.
    values = (None, *_powers(cores)) if now is None else tuple(sorted({*_powers(cores), now}))
    return Setting("", OPENMP, Dimension(f"endpoint: {OPENMP}", values, values.index(now)))


def _named(spec: ModelSpec, field: str, values: tuple[Any, ...], now: Any) -> Setting:
    dimension = Dimension(f"{spec.name}: {field}", values, values.index(now), ordered=False)
    return Setting(spec.name, field, dimension)


def _why_fixed(spec: ModelSpec, part: Part | None, *, real: bool) -> str:
    """Return why none of a model's settings can be searched; empty if they can."""
    recipe = spec.recipe
    reasons = (
        (isinstance(recipe, EnsembleRecipe), "an ensemble has the settings of its members"),
        (isinstance(recipe, TritonRecipe), "its config.pbtxt has them, and stays as it is"),
        (
            isinstance(recipe, GenerationRecipe) or spec.decoupled,
            "it answers with several responses, whose latency a load test does not show",
        ),
        (spec.triton.config is not None, f"{spec.triton.config} has them, and stays as it is"),
        (spec.triton.sequences is not None, "it keeps state between requests"),
        (part is None, "it has no part of its own in the artifact"),
        (
            part is not None and part.backend != "python" and not real,
            ON_IMAGE.format(backend=part.backend if part else ""),
        ),
    )
    return next((reason for holds, reason in reasons if holds), "")


def _batches(spec: ModelSpec) -> tuple[tuple[int, ...], int, str]:
    """Return larger batches: callers may send as many rows as now, so a smaller one could break them."""
    now = spec.batching.max_batch
    if not spec.batching.dynamic or now == 0:
        return (), now, "Triton forms no batches"
    return tuple(size for size in (now, 2 * now) if size <= MOST_BATCH), now, ""


def _why_no_instances(spec: ModelSpec, *, cores_transfer: bool) -> str:
    if len(spec.triton.instances) > 1:
        return "it has several groups of instances, which stay as they are"
    return "" if cores_transfer else "the endpoint has other cores"


def _why_no_delay(spec: ModelSpec) -> str:
    batching = spec.batching
    if not batching.dynamic or batching.max_batch == 0:
        return "Triton forms no batches"
    if batching.queue is not None or batching.priorities is not None:
        return "limits and priorities of the queue exclude it"
    return ""


def _powers(most: int) -> tuple[int, ...]:
    return tuple(1 << exponent for exponent in range(max(1, most).bit_length()))
