"""Physical names are filled in completely."""

import ast
from pathlib import Path

import pytest

from tests.structure.imports import module_files
from tritonstack.base import naming

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [ROOT / name for name in ("tritonstack", "stacks", "model_build")]
PATTERNS = {name: value for name, value in vars(naming).items() if isinstance(value, naming.NamePattern)}


def test_calls_of_the_product_fill_in_each_gap() -> None:
    """A wrong number of parts is an error only when the call runs."""
    calls = [
        (name, len(node.args) + len(node.keywords), {keyword.arg for keyword in node.keywords})
        for file in module_files(*PACKAGES).values()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        for name in [
            node.func.id
            if isinstance(node.func, ast.Name)
            else node.func.attr
            if isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "naming"
            else ""
        ]
        if name in PATTERNS
    ]
    assert {name for name, *_ in calls} == PATTERNS.keys()
    wrong = [
        (name, count)
        for name, count, named in calls
        if count != len(PATTERNS[name].gaps) or not named <= {*PATTERNS[name].gaps}
    ]
    assert wrong == []


@pytest.mark.parametrize(("parts", "named"), [((), {}), (("a", "b", "c"), {}), (("a",), {"base": "b"})])
def test_a_wrong_number_of_parts_is_an_error(parts: tuple[str, ...], named: dict[str, str]) -> None:
    with pytest.raises(TypeError):
        naming.endpoint_name(*parts, **named)
