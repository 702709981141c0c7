"""Two modules tell the local cloud from AWS: an environment's fact, and the access to the cloud."""

from __future__ import annotations

import ast

from tests.structure.test_cycles import MODULES

ALLOWED = {"tritonstack.spec.environments.environment", "tritonstack.workflows.local_cloud"}


def test_only_two_modules_ask_whether_an_account_is_local() -> None:
    asking = {
        name
        for name, module in MODULES.items()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and any(alias.name == "is_embedded" for alias in node.names)
    }
    assert asking == ALLOWED


def test_stacks_constructs_and_builds_do_not_tell_the_local_cloud_from_aws() -> None:
    for name, module in MODULES.items():
        if name.startswith(("stacks", "tritonstack.constructs", "model_build")):
            read = {node.attr for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)}
            assert "on_aws" not in read, name
