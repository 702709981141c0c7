"""Two modules tell the local cloud from AWS: an environment's fact, and the access to the cloud."""

import ast
import functools
from pathlib import Path

from tests.structure.imports import Module, read_modules

PRODUCT = tuple(
    Path(__file__).resolve().parents[2] / name for name in ("tritonstack", "stacks", "model_build")
)

FACT, ACCESS = "tritonstack.files.environment.environment", "tritonstack.operate.shared.local_cloud"


@functools.cache
def product_modules() -> dict[str, Module]:
    return read_modules(*PRODUCT)


def test_only_two_modules_ask_whether_an_account_is_local():
    assert _importing("is_embedded") == {FACT, ACCESS}


def test_only_the_environment_reads_whether_it_is_on_aws():
    """Other modules ask what they need to know, such as whether it has a registry."""
    reading = {
        name
        for name, module in product_modules().items()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr == "on_aws"
    }
    assert reading == {FACT}


def test_only_operate_distinguishes_the_local_cloud():
    """Constructs, stacks, and builds do the same on the local cloud as on AWS."""
    found = _importing("is_local") | _importing("has_registry") | _importing("image_store")
    assert found
    assert {name for name in found if not name.startswith("tritonstack.operate.")} == set()


def _importing(wanted: str) -> set[str]:
    return {
        name
        for name, module in product_modules().items()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and any(alias.name == wanted for alias in node.names)
    }
