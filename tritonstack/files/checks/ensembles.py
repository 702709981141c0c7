"""Check models that consist of others before a build: their models exist and are compatible.

model_build/recipes/pipeline.py checks that the tensors match, which needs the artifacts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from tritonstack.base.error_kinds import (
    CompositionError,
    InstanceTypeError,
    InvalidValueError,
    MissingReferenceError,
)
from tritonstack.base.errors import FileViolation
from tritonstack.base.yaml import Document, FieldPath, suggest
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import EnsembleRecipe, InputKind, PythonRecipe


def composition_violations(
    models: Mapping[str, Document[ModelSpec]], names: Collection[str]
) -> Iterator[FileViolation]:
    """Yield steps with a missing or circular model; `known` are the names of all models."""
    for name, document in models.items():
        recipe = document.record.recipe
        if not isinstance(recipe, EnsembleRecipe | PythonRecipe):
            continue
        uses = tuple(_uses(recipe))
        for place, model in uses:
            if model not in names:
                yield document.violation(
                    MissingReferenceError,
                    place,
                    f"unknown model {model!r}",
                    suggest(model, names, "add it to models/"),
                )
            elif name in _made_of(model, models):
                kind = "ensemble" if isinstance(recipe, EnsembleRecipe) else "call"
                what = "itself" if model == name else f"{name!r}"
                yield document.violation(
                    CompositionError,
                    place,
                    f"circular {kind}: {model!r} contains {what}",
                    "remove one of them from the other",
                )
        if uses and not _is_circular(name, models):
            yield from _use_violations(document, uses, models)
            yield from _machine_violations(document, models)
            if isinstance(recipe, EnsembleRecipe):
                yield from _whole_violations(document, recipe, models)


def _uses(recipe: EnsembleRecipe | PythonRecipe) -> Iterator[tuple[FieldPath, str]]:
    """Yield the models that a model consists of, with their positions in its file."""
    if isinstance(recipe, EnsembleRecipe):
        for index, step in enumerate(recipe.steps):
            yield ("recipe", "steps", index, "model"), step.model
    else:
        for index, name in enumerate(recipe.calls):
            yield ("recipe", "calls", index), name


def _use_violations(
    document: Document[ModelSpec],
    uses: Sequence[tuple[FieldPath, str]],
    models: Mapping[str, Document[ModelSpec]],
) -> Iterator[FileViolation]:
    """Yield models that cannot be part of another."""
    part = "a step" if document.record.recipe.kind == "ensemble" else "a called model"
    for place, name in uses:
        if name not in models:
            continue
        spec = models[name].record
        if spec.decoupled:
            yield document.violation(
                CompositionError,
                place,
                f"{name!r} returns several responses per request, but {part} must return one",
                "deploy it on its own endpoint",
            )
        if spec.triton.sequences is not None:
            yield document.violation(
                CompositionError,
                place,
                f"{name!r} keeps state between requests, so what uses its answers cannot be verified",
                "deploy it on its own endpoint",
            )
        if spec.recipe.kind == "python" and spec.members:
            yield document.violation(
                CompositionError,
                place,
                f"{name!r} calls other models, and so cannot be {part}",
                "call its models from one model, or deploy it on its own endpoint",
            )


def _machine_violations(
    document: Document[ModelSpec], models: Mapping[str, Document[ModelSpec]]
) -> Iterator[FileViolation]:
    """Yield models that no machine type runs together."""
    members = [name for name in document.record.members if name in models]
    machines = {name: _builds_for(name, models) for name in members}
    if machines and not set.intersection(*machines.values()):
        listing = ", ".join(f"{name}: {' and '.join(sorted(kinds))}" for name, kinds in machines.items())
        yield document.violation(
            InstanceTypeError,
            ("recipe", "steps" if document.record.recipe.kind == "ensemble" else "calls"),
            f"no machine type runs all of its models ({listing})",
            "choose precisions and formats that run on the same machine types",
        )


def _whole_violations(
    document: Document[ModelSpec], recipe: EnsembleRecipe, models: Mapping[str, Document[ModelSpec]]
) -> Iterator[FileViolation]:
    """Yield steps whose batches do not fit, and test inputs that the first step does not take."""
    yield from _batch_violations(document, recipe, models)
    first = recipe.steps[0].model
    takes, kind = _first_takes(first, models), document.record.test_inputs[0].kind
    if takes is not None and kind not in ("tensors", takes):
        yield document.violation(
            CompositionError,
            ("test_inputs", 0),
            f"the first step, {first!r}, expects {takes}",
            f"write {takes}",
        )


def _batch_violations(
    document: Document[ModelSpec], recipe: EnsembleRecipe, models: Mapping[str, Document[ModelSpec]]
) -> Iterator[FileViolation]:
    sizes = {name: largest_batch(name, models) for name in recipe.members if name in models}
    for index, step in enumerate(recipe.steps):
        if sizes.get(step.model) == 0 and any(sizes.values()):
            yield document.violation(
                CompositionError,
                ("recipe", "steps", index, "model"),
                f"{step.model!r} has no batch dimension (max_batch: 0), but other steps have one",
                "build all steps with a batch dimension, or none",
            )
    place = ("batching", "max_batch")
    if sizes and 0 not in sizes.values() and place in document.lines:
        smallest = min(sizes, key=lambda name: sizes[name])
        if document.record.batching.max_batch > sizes[smallest]:
            yield document.violation(
                InvalidValueError,
                place,
                f"{smallest!r} accepts at most {sizes[smallest]}",
                f"write {sizes[smallest]}, or remove it",
            )


def _builds_for(name: str, models: Mapping[str, Document[ModelSpec]]) -> set[str]:
    """Return the kinds of hardware that a model and all its members run on."""
    kinds = set[str](models[name].record.builds_for)
    for member in models[name].record.members:
        if member in models:
            kinds &= _builds_for(member, models)
    return kinds


def largest_batch(name: str, models: Mapping[str, Document[ModelSpec]]) -> int:
    """Return the maximum batch size of a model; for ensembles, the minimum over the members."""
    document = models[name]
    sizes = [largest_batch(member, models) for member in document.record.members if member in models]
    if ("batching", "max_batch") in document.lines or not sizes:
        sizes.append(document.record.batching.max_batch)
    return min(sizes)


def _first_takes(name: str, models: Mapping[str, Document[ModelSpec]]) -> InputKind | None:
    """Return what callers send to a model; None if its recipe does not define it."""
    if name not in models:
        return None
    recipe = models[name].record.recipe
    if isinstance(recipe, EnsembleRecipe):
        return _first_takes(recipe.steps[0].model, models)
    if recipe.takes == "tensors":
        return None
    return recipe.takes if recipe.layout == "ensemble" else "tensors"


def _is_circular(name: str, models: Mapping[str, Document[ModelSpec]]) -> bool:
    """Check whether a model contains itself."""
    return any(
        part in _made_of(member, models)
        for part in _made_of(name, models)
        for member in models[part].record.members
    )


def _made_of(name: str, models: Mapping[str, Document[ModelSpec]]) -> set[str]:
    """Return a model and all its members, recursively."""
    names, waiting = set(), [name]
    while waiting:
        current = waiting.pop()
        if current not in names and current in models:
            names.add(current)
            waiting += models[current].record.members
    return names
