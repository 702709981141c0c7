"""Whether the models of an ensemble's steps are there, and no model is made of itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from catalog.documents import Document, closest
from catalog.errors import FileProblem
from catalog.models import ModelSpec
from catalog.recipes import EnsembleRecipe


def composition_problems(
    models: Mapping[str, Document[ModelSpec]], known: Collection[str]
) -> Iterator[FileProblem]:
    """Steps whose model is not there or is the ensemble itself; `known` are the names of all models."""
    for name, document in models.items():
        recipe = document.record.recipe
        if not isinstance(recipe, EnsembleRecipe):
            continue
        for index, step in enumerate(recipe.steps):
            place = ("recipe", "steps", index, "model")
            if step.model not in known:
                suggestion = closest(step.model, known)
                yield document.problem(
                    place,
                    f"there is no model {step.model!r}",
                    remedy=f"did you mean '{suggestion}'?" if suggestion else "add it to models/",
                )
            elif name in _made_of(step.model, models):
                yield document.problem(
                    place,
                    f"{step.model!r} is made of {name!r} itself",
                    remedy="take one of them out of the other",
                )


def _made_of(name: str, models: Mapping[str, Document[ModelSpec]]) -> set[str]:
    """A model and everything that it is made of, however deep."""
    found, waiting = set(), [name]
    while waiting:
        current = waiting.pop()
        if current not in found and current in models:
            found.add(current)
            waiting += models[current].record.members
    return found
