"""`tritonstack setup` installs the pinned CDK CLI from npm's registry, and recovers after it was killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.packaging.wheels import ROOT, Installed, borrow_everything, install

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

HANGING_NPM = """\
#!/bin/sh
mkdir -p node_modules/.bin && touch node_modules/.bin/cdk && exec sleep 600
"""
LOCKED = {
    name: package["version"]
    for name, package in json.loads((ROOT / "package-lock.json").read_text())["packages"].items()
    if name and not package.get("dev")
}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return a folder for PATH with the Node and npm that this repository uses."""
    path = f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}"
    folder = tmp_path / "machine"
    folder.mkdir()
    for name in ("node", "npm"):
        (folder / name).symlink_to(str(shutil.which(name, path=path)))
    command = [str(folder / "npm"), "ping", "--fetch-retries=0", "--fetch-timeout=20000"]
    variables = {**os.environ, "PATH": f"{folder}{os.pathsep}{path}"}
    if subprocess.run(command, env=variables, capture_output=True, check=False, timeout=60).returncode:
        pytest.skip("npm cannot reach its registry")
    return folder


def kill_in_npm(installed: Installed, shop: Path, variables: Mapping[str, str]) -> None:
    """Start `setup` with an npm that never ends, and kill both when npm has written files."""
    hanging = shop.parent / "hanging"
    hanging.mkdir(exist_ok=True)
    (hanging / "npm").write_text(HANGING_NPM)
    (hanging / "npm").chmod(0o755)
    path = f"{hanging}{os.pathsep}{variables['PATH']}"
    process = subprocess.Popen(
        [installed.bin / "tritonstack", "setup", "--no-server"],
        cwd=shop,
        env={**os.environ, **variables, "PATH": path},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not list(shop.glob(".tritonstack/.cdk.new/node_modules/.bin/cdk")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_setup_installs_pinned_versions_and_resumes_after_a_kill(
    wheels: dict[str, Path], machine: Path, tmp_path: Path
):
    complete = install(tmp_path / "environment", wheels.values())  # its own: `setup` links programs into it
    borrow_everything(complete)
    variables = {"PATH": f"{machine}{os.pathsep}{complete.bin}{os.pathsep}/usr/bin{os.pathsep}/bin"}

    def run(*command: str) -> str:
        ended = complete.run(*command, cwd=shop, **variables)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    shop = tmp_path
    run("tritonstack", "init", "shop")
    shop = tmp_path / "shop"
    cdk = shop / ".tritonstack/cdk/node_modules/.bin/cdk"

    kill_in_npm(complete, shop, variables)
    assert not cdk.exists()
    run("tritonstack", "setup", "--no-server")
    listed = json.loads((shop / ".tritonstack/cdk/node_modules/.package-lock.json").read_text())["packages"]
    assert {name: package["version"] for name, package in listed.items()} == LOCKED
    version = LOCKED["node_modules/aws-cdk"]
    assert run("cdk", "--version").startswith(version)  # linked beside the console scripts

    (shop / ".tritonstack/cdk/package-lock.json").write_text("that of an earlier release\n")
    kill_in_npm(complete, shop, variables)
    assert run("cdk", "--version").startswith(version)
    run("tritonstack", "setup", "--no-server")
    assert sorted(file.name for file in (shop / ".tritonstack").glob("*cdk*")) == [".cdk.lock", "cdk"]
    shipped = (ROOT / "package-lock.json").read_bytes()
    assert (shop / ".tritonstack/cdk/package-lock.json").read_bytes() == shipped
