"""An unknown key of a recipe is compared with the keys of its own kind only."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import MODEL
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import parse_document
from tritonstack.spec.models.model import ModelSpec


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (
            "{kind: text-generation, max_new_tokens: 8}",
            "recipe.max_new_tokens: unknown key\n  help: did you mean 'max_tokens'?",
        ),
        (
            "{kind: text-generation, pooling: mean}",
            "recipe.pooling: kind: text-generation does not support this key; kind: text-embedding does\n"
            "  help: remove it; known keys here: kind, max_length, max_tokens, overrides",
        ),
        (
            "{kind: python, zzz: 1}",
            "recipe.zzz: unknown key\n  help: known keys here: calls, code, decoupled, environment, kind",
        ),
    ],
)
def test_keys_of_other_kinds_are_not_suggested(recipe: str, message: str) -> None:
    text = MODEL.replace("recipe:\n  kind: text-embedding", f"recipe: {recipe}")
    with pytest.raises(InvalidFilesError) as caught:
        parse_document(text, Path("model.yaml"), ModelSpec)
    assert message in str(caught.value)
