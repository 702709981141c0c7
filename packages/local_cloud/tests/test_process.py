"""The cloud's process: state folder, port, start, and end."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tritonstack.base.error_kinds import LocalCloudError
from tritonstack.base.errors import UsageError
from tritonstack.triton.sandbox import EXPOSE
from tritonstack_local.cloud_folder import CloudAddress, is_running, read_address, start_ticks
from tritonstack_local.process import forget, start_detached, stop
from tritonstack_local.settings import CloudSettings

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[3]
NOBODYS = CloudAddress("http://localhost:1", 1, os.getpid(), "111122223333", "eu-west-1")
FOREGROUND = """
from pathlib import Path
from tritonstack_local.process import run_foreground
from tritonstack_local.settings import CloudSettings
folder = Path({folder!r})
run_foreground(CloudSettings(
    state_dir=folder, server_home=folder, account_id="111122223333", region="eu-west-1"
))
"""


def start(folder, *, port=None, **options):
    usual = {"account_id": "111122223333", "region": "eu-west-1", "server_home": folder}
    return start_detached(CloudSettings(state_dir=folder, **usual | options), port=port)


def wait_until(condition, *, timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def folder(tmp_path):
    yield tmp_path / "state"
    stop(state_dir=tmp_path / "state")


def test_a_detached_cloud_is_found_and_stopped(folder, monkeypatch):
    # The user's settings for AWS must not affect the cloud's own calls.
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    address = start(folder)
    assert read_address(folder) == address
    assert address.environment()["AWS_ENDPOINT_URL"] == f"http://localhost:{address.port}"
    ticks = start_ticks(address.pid)
    with pytest.raises(UsageError, match="already running") as caught:
        start(folder)
    assert caught.value.exit_code == 2
    with pytest.raises(UsageError, match=f"port {address.port} cannot be used"):
        start(folder / "beside", port=address.port)
    assert stop(state_dir=folder) is True
    assert not is_running(address.pid, ticks)
    assert read_address(folder) is None
    assert stop(state_dir=folder) is False


@pytest.mark.parametrize("written", ["", '{"endpo', "[]", '{"start_ticks": 1, "of": "another version"}'])
def test_an_unreadable_address_is_ignored(folder, written):
    folder.mkdir()
    (folder / "cloud.json").write_text(written)
    assert read_address(folder) is None
    assert stop(state_dir=folder) is False
    assert start(folder) == read_address(folder)


def test_a_cloud_can_start_after_a_kill(folder):
    address = start(folder)
    os.kill(address.pid, signal.SIGKILL)
    wait_until(lambda: read_address(folder) is None)
    assert stop(state_dir=folder) is False
    assert start(folder).pid != address.pid


def test_a_cloud_in_another_pid_namespace_is_found(folder):
    """As seen from a build in a container, which must end neither the cloud nor a process with its pid."""
    address = start(folder)
    written = json.loads((folder / "cloud.json").read_text())
    elsewhere = written | {"pid": os.getpid()}
    (folder / "cloud.json").write_text(json.dumps(elsewhere))
    assert read_address(folder) == replace(address, pid=os.getpid())
    with pytest.raises(LocalCloudError, match="runs outside this container"):
        stop(state_dir=folder)
    (folder / "cloud.json").write_text(json.dumps(written))
    assert stop(state_dir=folder) is True


def test_a_stale_address_is_removed_with_the_lock(folder, monkeypatch):
    """A starting cloud has no address yet, and a forgotten one has none anymore."""
    folder.mkdir()
    (folder / "cloud.json").write_text(json.dumps(asdict(NOBODYS) | {"start_ticks": 1}))
    seen = []

    def look(_: Path) -> bool:
        seen.append((read_address(folder), stop(state_dir=folder)))
        return False

    monkeypatch.setattr("tritonstack_local.process.forget_state", look)
    forget(state_dir=folder)
    assert seen == [(None, False)]


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_foreground_cloud_ends_on_a_signal(folder, ending):
    child = subprocess.Popen([sys.executable, "-c", FOREGROUND.format(folder=str(folder))], cwd=ROOT)
    wait_until(lambda: read_address(folder) is not None)
    child.send_signal(ending)
    assert child.wait(timeout=60) == 0
    assert not (folder / "cloud.json").exists()


def test_a_foreground_cloud_ends_with_its_parent(folder):
    script = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {FOREGROUND.format(folder=str(folder))!r}])\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    wait_until(lambda: read_address(folder) is not None)
    cloud = read_address(folder)
    assert cloud is not None
    ticks = start_ticks(cloud.pid)
    parent.kill()
    parent.wait()
    wait_until(lambda: not is_running(cloud.pid, ticks))


def test_two_concurrent_starts_do_not_share_a_folder(folder):
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", FOREGROUND.format(folder=str(folder))],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    wait_until(lambda: any(starter.poll() is not None for starter in starters))
    loser = next(starter for starter in starters if starter.poll() is not None)
    assert "tritonstack down --account 111122223333" in loser.communicate()[1]
    wait_until(lambda: read_address(folder) is not None)
    winner = next(starter for starter in starters if starter is not loser)
    winner.terminate()
    winner.communicate(timeout=60)
    assert winner.returncode == 0


def test_a_failed_start_reports_the_reason(folder, monkeypatch):
    folder.mkdir()
    (folder / "cloud.lock").mkdir()
    with pytest.raises(LocalCloudError, match="did not start"):
        start(folder)


def identity(folder, home, **variables):
    """Return the AWS CLI's identity, using the profile file only."""
    profile = str(folder / "aws-profile")
    files = {"AWS_CONFIG_FILE": profile, "AWS_SHARED_CREDENTIALS_FILE": profile}
    known = {"PATH": os.environ["PATH"], "HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true"}
    return subprocess.run(
        ["aws", "sts", "get-caller-identity", "--output", "json"],
        env={**known, **files, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not shutil.which("aws"), reason="the AWS CLI (awscli) is not installed")
def test_the_secret_is_private_and_persistent(folder, tmp_path):
    own = tmp_path / "home/.aws/credentials"
    own.parent.mkdir(parents=True)
    own.write_text("[default]\naws_access_key_id = mine\naws_secret_access_key = mine\n")
    given = start(folder).environment()
    secret = given["AWS_SECRET_ACCESS_KEY"]
    for name in ("secret", "aws-profile"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    assert json.loads(identity(folder, tmp_path / "home").stdout)["Account"] == "111122223333"
    wrong = identity(
        folder, tmp_path / "home", AWS_ACCESS_KEY_ID=given["AWS_ACCESS_KEY_ID"], AWS_SECRET_ACCESS_KEY="x"
    )
    assert "SignatureDoesNotMatch" in wrong.stderr
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in {"aws-profile"}:
            assert secret.encode() not in path.read_bytes(), path
    stop(state_dir=folder)
    assert not (folder / "aws-profile").exists()
    assert start(folder).environment()["AWS_SECRET_ACCESS_KEY"] == secret

    stop(state_dir=folder)
    (folder / "secret").unlink()  # the state of a version without a secret
    renewed = start(folder).environment()["AWS_SECRET_ACCESS_KEY"]
    assert renewed not in {secret, "embedded"}
    stop(state_dir=folder)
    forget(state_dir=folder)
    assert not (folder / "secret").exists()
    assert own.read_text().count("mine") == 2


def test_exposure_is_allowed_for_the_process_of_one_cloud_only(folder, monkeypatch):
    monkeypatch.delenv(EXPOSE, raising=False)
    seen = folder.parent / "seen.json"
    program = """
import json, os, sys
import tritonstack_local.server
from tritonstack_local.process import serve_cloud
from tritonstack_local.settings import CloudSettings
class StandIn:
    def __init__(self, *args, **options):
        open(sys.argv[1], "w").write(json.dumps(dict(os.environ)))
        raise SystemExit
tritonstack_local.server.LocalCloud = StandIn
serve_cloud(CloudSettings.from_json(sys.argv[2]))
"""
    usual = {"account_id": "111122223333", "region": "eu-west-1", "server_home": folder}
    for expose in (True, False):
        settings = CloudSettings(state_dir=folder, **usual, expose=expose)
        subprocess.run([sys.executable, "-c", program, seen, settings.to_json()], check=False)
        assert json.loads(seen.read_text()).get(EXPOSE) == ("1" if expose else None)
        seen.unlink()
