"""No server listens on every interface without consent, on a system that forbids namespaces."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tritonstack.base.paths import find_project
from tritonstack.triton.sandbox import EXPOSE, why_no_namespaces

pytestmark = pytest.mark.skipif(why_no_namespaces() is not None, reason="cannot forbid what is forbidden")

# In a user namespace, the limit for further ones can be set to none.
FORBIDDING = ("unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh")
START = """
import sys
from pathlib import Path
from tritonstack.triton import ExposureRejectedError, TritonServer, find_installation

home, repository, state = map(Path, sys.argv[1:])
try:
    server = TritonServer.start(
        installation=find_installation(home=home), model_root=repository, environment={}, state_dir=state
    )
except ExposureRejectedError as rejected:
    sys.exit(f"{rejected}")
print("started")
server.stop(grace_s=0)
"""
ROOT = Path(__file__).parents[2]


def run_forbidden(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != EXPOSE}
    return subprocess.run(
        [*FORBIDDING, *command],
        env={**environment, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def start(tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "models/m/1").mkdir(parents=True)
    home = find_project(Path(__file__)).state_dir / "server"
    folders = (str(home), str(tmp_path / "models"), str(tmp_path / "state"))
    return run_forbidden(sys.executable, "-c", START, *folders, **variables)


def test_a_server_is_rejected_with_a_remedy(tmp_path):
    done = start(tmp_path)
    assert done.returncode == 1, done.stderr
    assert "No space" in done.stderr  # the kernel's own reason
    assert "--expose" in done.stderr
    assert not (tmp_path / "state").exists()


@pytest.mark.e2e
def test_consent_starts_it(tmp_path):
    done = start(tmp_path, **{EXPOSE: "1"})
    assert done.stdout == "started\n", done.stderr


@pytest.mark.e2e
def test_up_reports_that_no_endpoint_can_start(tmp_path):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    script = f"cd {ROOT} && tritonstack up --detach && tritonstack down --forget"
    done = run_forbidden("sh", "-c", script, TRITONSTACK_HOME=str(tmp_path), PATH=path)
    assert done.returncode == 0, done.stderr
    assert "endpoints cannot start" in done.stderr
