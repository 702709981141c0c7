"""One public class name, one meaning: no two modules of the product define classes of the same name."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ONE_CONCEPT = {"TritonPythonModel"}
"""Triton's Python backend requires this name in each model.py."""


def class_names(root: Path) -> dict[str, list[str]]:
    """Return the files that define each public class."""
    places = defaultdict(list)
    for file in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(file.relative_to(ROOT)))
    return places


def test_a_public_class_name_has_one_definition():
    places = defaultdict(list)
    for package in ("tritonstack", "stacks", "model_build", "packages/local_cloud/tritonstack_local"):
        for name, files in class_names(ROOT / package).items():
            places[name] += files
    assert {name: files for name, files in places.items() if len(files) > 1 and name not in ONE_CONCEPT} == {}
    assert {"Session", "BuildInfra", "CloudSettings"} <= places.keys()  # each package is read
    assert all(len(places[name]) > 1 for name in ONE_CONCEPT)
