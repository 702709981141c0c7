"""Templates that CloudFormation returns with question marks, and what can be compared of them."""

from typing import Any

import pytest

from tests.operate.conftest import STACK
from tests.operate.deploy.test_changes import BASE, hold
from tritonstack.operate.deploy.changes import plan_stack_changes
from tritonstack.operate.synth.assembly import as_stored, as_written


@pytest.mark.parametrize(
    ("stored", "template", "written"),
    [
        ("J?rgen", "Jürgen", "Jürgen"),
        ("??", "東京", "東京"),
        ("?", "🙂", "🙂"),
        ("J?rgen", "Jürgens", "J?rgen"),
        ("why?", "why?", "why?"),
        ({"a": ["x?", "b"]}, {"a": ["xé"]}, {"a": ["xé", "b"]}),
        ({"a": "?"}, None, {"a": "?"}),
        ({"a": "?"}, {"b": "ü"}, {"a": "?"}),
        (["?", 1, True], {"a": "ü"}, ["?", 1, True]),
        (None, {"a": "ü"}, None),
    ],
)
def test_invalid_characters_are_replaced(stored, template, written):
    assert as_written(stored, template) == written


def test_an_owner_with_an_umlaut_is_not_a_change(cloud, synthesized, monkeypatch, tmp_path):
    """The first of two phases does not write question marks into the deployed stack either."""
    templates = {name: synthesized().template(name) for name in synthesized().stacks}
    for resource in templates[STACK]["Resources"].values():
        resource.setdefault("Metadata", {})["owner"] = "Jürgen"
    assembly = synthesized().with_templates(templates, tmp_path / "assembly")
    hold(cloud, monkeypatch, {name: stored(template) for name, template in templates.items()})
    changes = plan_stack_changes(cloud, BASE, assembly)
    assert {plan.action for plan in changes.plans} == {"nothing"}
    assert changes.deployed == templates


def stored(part: Any) -> Any:
    """Return a template as CloudFormation returns it."""
    if isinstance(part, dict):
        return {name: stored(value) for name, value in part.items()}
    if isinstance(part, list):
        return [stored(value) for value in part]
    return as_stored(part) if isinstance(part, str) else part
