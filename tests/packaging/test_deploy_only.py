"""A new repository on a machine with its requirements.txt: the extras `cdk` and `cli`, and no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.packaging.wheels import Installed

NO_CREDENTIALS = {"AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nowhere"}


@pytest.fixture
def shop(deploy_only: Installed, tmp_path: Path) -> Path:
    ended = deploy_only.run("tritonstack", "init", "shop", "--example", "python", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    return tmp_path / "shop"


def test_status_lists_each_unreachable_environment(deploy_only: Installed, shop: Path):
    ended = deploy_only.run("tritonstack", "--json", "status", cwd=shop, **NO_CREDENTIALS)
    errors = {
        environment["name"]: environment["error"] for environment in json.loads(ended.stdout)["environments"]
    }
    assert set(errors) == {"dev", "local", "prod"}
    assert "tritonstack[local]" in errors["local"]
    assert "credentials" in errors["prod"]
