"""No import cycles between modules, or between the parts of a package. Type-only imports count."""

import functools
from pathlib import Path

import pytest

from tests.structure.imports import (
    Graph,
    find_cycle,
    import_graph,
    is_package,
    module_files,
    read_modules,
    sibling_graph,
)

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = tuple(ROOT / name for name in ("tritonstack", "stacks", "model_build"))
ROOTS = (*PRODUCT, ROOT / "packages" / "local_cloud" / "tritonstack_local")
PACKAGES = sorted(name for name, file in module_files(*ROOTS).items() if is_package(file))


@functools.cache
def product() -> Graph:
    """Return the modules that each module of the product imports. Not read at import: it takes seconds."""
    return import_graph(read_modules(*ROOTS))


def test_modules_do_not_import_each_other_in_a_cycle():
    assert " -> ".join(find_cycle(product())) == ""


@pytest.mark.parametrize("package", PACKAGES)
def test_the_parts_of_a_package_do_not_import_each_other_in_a_cycle(package):
    assert " -> ".join(find_cycle(sibling_graph(product(), package))) == ""


def test_every_kind_of_import_is_detected(tmp_path):
    """A cycle through a type-only, a relative, and a late import, between modules and between folders."""
    files = {
        "p/__init__.py": "",
        "p/a/__init__.py": "",
        "p/a/one.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.b.two import T\n",
        "p/b/__init__.py": "",
        "p/b/two.py": "def late():\n    from ..c import three\n",
        "p/c/__init__.py": "",
        "p/c/three.py": "import p.a.one\n",
        "p/a/other.py": "",
    }
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    graph = import_graph(read_modules(tmp_path / "p"))
    assert find_cycle(graph) == ["p.a.one", "p.b.two", "p.c.three", "p.a.one"]
    assert find_cycle(sibling_graph(graph, "p")) == ["a", "b", "c", "a"]
    del graph["p.c.three"]
    assert find_cycle(graph) == []
