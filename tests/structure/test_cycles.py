"""No import cycles between modules, or between the parts of a package. Type-only imports count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.structure.imports import find_cycle, import_graph, read_modules, sibling_graph

ROOT = Path(__file__).resolve().parents[2]
MODULES = read_modules(ROOT / "tritonstack", ROOT / "stacks", ROOT / "model_build")
LOCAL_CLOUD = read_modules(ROOT / "packages" / "local_cloud" / "tritonstack_local")
ALL = MODULES | LOCAL_CLOUD
GRAPH = import_graph(ALL)
PACKAGES = sorted(name for name, module in ALL.items() if module.is_package)


def test_modules_do_not_import_each_other_in_a_cycle() -> None:
    assert " -> ".join(find_cycle(GRAPH)) == ""


@pytest.mark.parametrize("package", PACKAGES)
def test_the_parts_of_a_package_do_not_import_each_other_in_a_cycle(package: str) -> None:
    assert " -> ".join(find_cycle(sibling_graph(GRAPH, package))) == ""


def test_every_kind_of_import_is_detected(tmp_path: Path) -> None:
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


def test_product_is_detected() -> None:
    assert {"tritonstack.workflows.session", "stacks.endpoint", "model_build.build"} <= set(GRAPH)
    assert "tritonstack.workflows.reporter" in GRAPH["tritonstack.workflows.session"]
    assert "tritonstack_local.server" in GRAPH["tritonstack_local.process"]
    assert "tritonstack_local.process" in GRAPH["tritonstack.workflows.local_cloud"]
