"""Notes about valid files: entries that passed no promotion gate, missing prices, and placeholders."""

from __future__ import annotations

from tritonstack.base.errors import shown_path
from tritonstack.base.files import short_digest
from tritonstack.base.yaml import Document
from tritonstack.project.scaffold.model_files import (
    PLACEHOLDER_IMAGE,
    PLACEHOLDERS,
    placeholder_image,
)
from tritonstack.records.locks import Lock, PlacedEntry, entries_of
from tritonstack.spec.environments.environment import EnvironmentSpec
from tritonstack.spec.models.model import ModelSpec


def unpromoted_note(lock: Document[Lock], spec: EnvironmentSpec) -> str | None:
    """Describe entries that were built for an environment with a promotion source; None if there are none.

    A rollback keeps what the entry was before.
    """
    if spec.promotion is None:
        return None
    names = list(
        dict.fromkeys(_described(placed) for placed in entries_of(lock) if placed.entry.promoted is None)
    )
    if not names:
        return None
    return (
        f"{shown_path(lock.file)}: {', '.join(names)} {'was' if len(names) == 1 else 'were'} built for "
        f"{spec.name}, not promoted from {spec.promotion.source}: no gate was checked"
    )


def unpriced_note(environment: Document[EnvironmentSpec]) -> str | None:
    """Describe instance types without a price in a file that has prices; None if there are none."""
    spec = environment.record
    used = {variant.instance.name for endpoint in spec.endpoints.values() for variant in endpoint.variants}
    missing = sorted(used - set(spec.prices))
    if not spec.prices or not missing:
        return None
    return f"{shown_path(environment.file)}: no price for {', '.join(missing)}: costs are not shown"


def placeholder_note(model: Document[ModelSpec]) -> str | None:
    """Describe test inputs that `tritonstack new` wrote; None if they were replaced."""
    texts = {str(value) for case in model.record.test_inputs for value in case.model_dump().values()}
    image = model.file.parent / PLACEHOLDER_IMAGE
    is_gray = image.name in texts and image.is_file() and image.read_bytes() == placeholder_image()
    if texts.isdisjoint(PLACEHOLDERS) and not is_gray:
        return None
    location = f"{shown_path(model.file)}:{model.line_of(('test_inputs',))}"
    return (
        f"{location}: test_inputs has a placeholder of `tritonstack new`: write inputs that your users send"
    )


def _described(placed: PlacedEntry) -> str:
    kind, name, _ = placed.path
    return f"{'image ' if kind == 'images' else ''}{name} {short_digest(placed.entry.digest)}"
