"""Which CDK CLI a project uses, and how its version is read."""

import json
from pathlib import Path

import pytest

from tritonstack.base.errors import TritonstackError
from tritonstack.operate.synth.cdk import cdk_program, find_cdk, pinned_cdk_version

PINNED = pinned_cdk_version()


def npm_package(folder: Path, version: str) -> Path:
    """Install a package as npm does; its program never runs in these tests."""
    package = folder / "node_modules/aws-cdk"
    (package / "bin").mkdir(parents=True)
    script(package / "bin/cdk", "exit 9")
    (package / "package.json").write_text(json.dumps({"name": "aws-cdk", "version": version}))
    link = folder / "node_modules/.bin/cdk"
    link.parent.mkdir()
    link.symlink_to("../aws-cdk/bin/cdk")
    return link


def script(file: Path, commands: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{commands}\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}/path:/usr/bin:/bin")
    monkeypatch.delenv("TRITONSTACK_HOME", raising=False)
    (tmp_path / "shop").mkdir()
    return tmp_path / "shop"


def error(root: Path) -> str:
    with pytest.raises(TritonstackError) as caught:
        find_cdk(root, environment_name="dev", variables={})
    assert (caught.value.code, caught.value.remedy) == ("TS601", "run `tritonstack setup`")
    return caught.value.message


@pytest.mark.parametrize(
    ("commands", "version"),
    [
        ("echo 3.0.0", "3.0.0"),
        ("echo '2.1.0 (build 1a2b3c4)'", "2.1.0"),
        ("exit 0", "unknown"),
        (f"echo {PINNED}; exit 1", "unknown"),
    ],
)
def test_program_of_another_version_is_rejected(root, commands, version):
    program = script(root.parent / "path/cdk", commands)
    expected = f"the CDK CLI is version {version} ({program}); expected version {PINNED}"
    assert error(root) == expected


@pytest.mark.parametrize("where", ["shop", "shop/.tritonstack/cdk"])
def test_the_version_of_a_package_comes_from_its_package_file(root, where):
    program = npm_package(root.parent / where, "2.0.0")
    assert "version 2.0.0" in error(root)
    assert str(program) in error(root)


def test_the_pinned_version_wins_over_the_nearest_one(root):
    """So `tritonstack setup` is a remedy for an old package of the project's own."""
    npm_package(root, "2.0.0")
    script(root.parent / "path/cdk", "echo 3.0.0")
    installed = npm_package(root / ".tritonstack/cdk", PINNED)
    program = cdk_program(root)
    assert (program.program, program.version) == (str(installed), PINNED)
