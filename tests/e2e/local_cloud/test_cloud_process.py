"""The local cloud as a process: however it ends, everything it started ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.e2e.conftest import Site
from tritonstack_local.cloud_folder import CloudAddress, read_address

pytestmark = pytest.mark.soak


def await_gone(*pids: int, within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still there: {[pid for pid in pids if is_alive(pid)]}"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def await_address(site: Site, within_s: float = 30) -> int:
    deadline = time.monotonic() + within_s
    while (address := read_address(site.project.cloud_dir())) is None:
        assert time.monotonic() < deadline, "the cloud did not come up"
        time.sleep(0.05)
    return address.pid


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_foreground_command_prints_its_url_and_ends_on_a_signal(site: Site, ending: signal.Signals) -> None:
    process = site.start("tritonstack", "up")
    pid = await_address(site)
    os.kill(pid, ending)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, output
    assert "the local cloud listens on http://localhost:" in output
    assert read_address(site.project.cloud_dir()) is None


def test_foreground_agent_ends_with_its_parent(site: Site) -> None:
    start = "import subprocess, sys, time; subprocess.Popen(['tritonstack', 'up']); time.sleep(600)"
    parent = subprocess.Popen(
        [sys.executable, "-c", start],
        cwd=site.project.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        pid = await_address(site)
    finally:
        parent.kill()
        parent.wait()
    await_gone(pid)


def test_cloud_starts_after_a_killed_one(site: Site) -> None:
    site.tritonstack("up", "--detach")
    pid = site.address.pid
    os.kill(pid, signal.SIGKILL)
    await_gone(pid)
    site.tritonstack("up", "--detach")
    assert site.address.pid != pid
    site.tritonstack("down")


def test_two_clouds_run_side_by_side(site: Site) -> None:
    beside = Site(site.project, {"TRITONSTACK_CLOUD": "beside"})
    site.tritonstack("up", "--detach")
    try:
        output = beside.tritonstack("up", "--detach")
        assert str(site.address.port) not in output
    finally:
        beside.tritonstack("down")
        site.tritonstack("down")


def test_two_accounts_are_isolated_clouds(site: Site) -> None:
    first, second = "000000000000", "000000000001"
    site.tritonstack("up", "--detach")
    said = site.tritonstack("up", "--detach", "--account", second)
    assert f"(account {second})" in said
    there = read_address(site.project.cloud_dir(second))
    assert there is not None
    s3 = {address.account_id: client_of(address, "s3") for address in (site.address, there)}
    s3[second].create_bucket(Bucket="artifacts")
    assert s3[first].list_buckets()["Buckets"] == []
    s3[first].create_bucket(Bucket="artifacts")  # which one cloud of two accounts would reject

    assert f"still running: {second}" in site.tritonstack("down")
    assert read_address(site.project.cloud_dir(second)) == there
    site.tritonstack("up", "--detach")
    said = site.tritonstack("down", "--all", "--forget")
    assert f"stopped: default, default-{second}; state removed: " in said
    await_gone(there.pid)
    assert read_address(site.project.cloud_dir()) is None


def test_accounts_have_no_access_to_each_other(site: Site) -> None:
    site.tritonstack("up", "--detach")
    sts = client_of(site.address, "sts")
    with pytest.raises(ClientError) as caught:
        sts.assume_role(RoleArn="arn:aws:iam::000000000001:role/reader", RoleSessionName="copy")
    assert caught.value.response["Error"]["Code"] == "AccessDenied"
    site.tritonstack("down")


def client_of(address: CloudAddress, service: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=address.endpoint_url,
        region_name=address.region,
        aws_access_key_id=address.environment()["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=address.environment()["AWS_SECRET_ACCESS_KEY"],
    )
