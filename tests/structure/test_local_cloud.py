"""Two modules tell the local cloud from AWS: an environment's fact, and the access to the cloud."""

from __future__ import annotations

import ast

from tests.structure.test_cycles import MODULES

ALLOWED = {"tritonstack.spec.environments.environment", "tritonstack.workflows.local_cloud"}


def attributes(tree: ast.Module) -> set[str]:
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_only_two_modules_ask_whether_an_account_is_local() -> None:
    asking = {
        name
        for name, module in MODULES.items()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and any(alias.name == "is_embedded" for alias in node.names)
    }
    assert asking == ALLOWED


def test_stacks_constructs_and_builds_do_not_tell_the_local_cloud_from_aws() -> None:
    for package in ("stacks", "tritonstack.constructs", "model_build"):
        names = [name for name in MODULES if f"{name}.".startswith(f"{package}.")]
        assert len(names) > 1, package
        reading = [name for name in names if "on_aws" in attributes(MODULES[name].tree)]
        assert reading == []
