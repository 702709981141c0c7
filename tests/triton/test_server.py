"""A real server: started, invoked, failing, and stopped without leftovers."""

import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest

from model_build.environments.packing import build_environment
from tests.python_models import python_model
from tests.triton.conftest import NEGATE, add_python_model
from tests.triton.kserve_requests import (
    failed_start,
    invoke,
    outputs,
    processes_writing_to,
    shared_memory_left_behind,
    wait_until_gone,
)
from tritonstack.triton import (
    ServeRejectedError,
    TritonFailedError,
    TritonInstallation,
    TritonRequestError,
    TritonServer,
    TritonTimeoutError,
)
from tritonstack.triton import server as server_module
from tritonstack.triton.sandbox import EXPOSE

pytestmark = pytest.mark.e2e
PACKAGES = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"

SLOW = (
    python_model("-x", "if (x == 5).any(): time.sleep(20)")
    + """
    def finalize(self):
        time.sleep(20)
"""
)

# Starts a server from a thread that ends, then waits to be killed.
PARENT = """
import sys, threading
from pathlib import Path
from tritonstack.triton import TritonServer, find_installation
from tritonstack.triton import server as module

home, repository, state, on_host = sys.argv[1:]
if on_host == "True":
    module.why_no_namespaces = lambda: "as the test wants it"

def start():
    global server
    server = TritonServer.start(
        installation=find_installation(home=Path(home)), model_root=Path(repository),
        environment={}, state_dir=Path(state),
    )

thread = threading.Thread(target=start)
thread.start()
thread.join()
server.wait_ready(timeout_s=60)
print("ready", flush=True)
threading.Event().wait()
"""


@pytest.fixture(params=[False, True], ids=["namespaces", "host"])
def on_host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """With namespaces, and as on a system that forbids them."""
    if request.param:
        monkeypatch.setenv(EXPOSE, "1")
        monkeypatch.setattr("tritonstack.triton.sandbox.why_no_namespaces", lambda: "as the test wants it")
        monkeypatch.setattr(server_module, "why_no_namespaces", lambda: "as the test wants it")
    elif (reason := server_module.why_no_namespaces()) is not None:
        pytest.skip(reason)
    return bool(request.param)


def test_python_model_is_served_to_many_threads_and_cleaned_up(start, tmp_path, on_host, caplog):
    regions = shared_memory_left_behind()
    server = start(add_python_model(tmp_path / "models"))
    assert ("user namespaces" in caplog.text) is on_host
    answers: list[dict[str, list[float]]] = []

    def send(number: int) -> None:
        answers.extend(outputs(invoke(server, [float(number)])) for _ in range(20))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = sorted(-float(number) for number in range(16) for _ in range(20))
    assert sorted(answer["y"][0] for answer in answers) == expected
    assert server.running
    assert len(processes_writing_to(server.log_path)) > 2
    # What `serve` gives the one copy of the model, and nothing of what others have.
    assert 16 << 20 <= server.shared_memory_held() < 32 << 20
    # A Python of its own for the model weighs some 20 MiB, the server itself 10.
    assert server.shared_memory_held() + (20 << 20) < server.memory_held() < 128 << 20
    server.stop()
    assert processes_writing_to(server.log_path) == []
    assert shared_memory_left_behind() <= regions
    assert not server.running
    server.stop()
    with pytest.raises(TritonFailedError, match="exit status 0"):
        invoke(server, [1.0])


def test_two_servers_run_side_by_side_in_folders_with_odd_names(start, tmp_path):
    first = start(add_python_model(tmp_path / "first model's"))
    second = start(add_python_model(tmp_path / "$(second) ünit"), SAGEMAKER_BIND_TO_PORT="9876")
    assert [outputs(invoke(server, [1.0])) for server in (first, second)] == [{"y": [-1.0]}] * 2
    assert ":9876" in second.log_tail()


def test_server_gets_only_the_variables_of_the_container(start, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    source = 'import os; print("SEEN", sorted(os.environ), flush=True)\nopen("/opt/ml/model/new", "w")\n'
    server = start(add_python_model(tmp_path / "models", source=source), ready=False, MY_VARIABLE="1")
    assert "Read-only" in failed_start(server).message
    line = next(line for line in server.log_path.read_text().splitlines() if line.startswith("SEEN"))
    assert "'MY_VARIABLE'" in line
    assert "AWS" not in line


def add_environment(models: Path, environment: Path, installation: TritonInstallation) -> None:
    """Pack an environment; the embedded server's Python and NumPy lie elsewhere than an image's."""
    python = (installation.root / "python/bin/python3").resolve()
    (environment / "bin/python3").unlink(missing_ok=True)
    (environment / "bin/python3").symlink_to(python)
    settings = f"home = {python.parent}\ninclude-system-site-packages = false\n"
    (environment / "pyvenv.cfg").write_text(settings)
    (environment / PACKAGES / "server.pth").write_text(f"/opt/tritonstack-server/python/{PACKAGES}\n")
    with tarfile.open(models / "negate/environment.tar.gz", "w:gz") as archive:
        archive.add(environment, arcname=".")
    with (models / "negate/config.pbtxt").open("a") as config:
        value = 'value: { string_value: "$$TRITON_MODEL_DIRECTORY/environment.tar.gz" }'
        config.write(f'parameters {{ key: "EXECUTION_ENV_PATH" {value} }}\n')


def test_a_packed_environment_serves_without_activation(start, installation, tmp_path):
    """Triton 25.08 and later run no script of an environment; this activate sets the same variables."""
    source = "import idna, numpy\nassert 'python_env_' in idna.__file__\n" + NEGATE
    models = add_python_model(tmp_path / "models", source=source)
    packed, environment = tmp_path / "env.tar.gz", tmp_path / "environment"
    build_environment(["idna==3.10"], file=packed, cache_dir=tmp_path / "cache")
    with tarfile.open(packed) as archive:
        archive.extractall(environment, filter="tar")
    (environment / "bin/activate").write_text(
        'root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"\n'
        'export VIRTUAL_ENV="$root" PATH="$root/bin:$PATH" LD_LIBRARY_PATH="$root/lib:$LD_LIBRARY_PATH"\n'
        "unset PYTHONHOME\n"
    )
    add_environment(models, environment, installation)
    server = start(models)
    assert outputs(invoke(server, [1.0])) == {"y": [-1.0]}
    commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in processes_writing_to(server.log_path)]
    assert len([command for command in commands if "/watch_stubs.py" in command]) == 1


def test_failed_load_reports_its_reason(start, tmp_path):
    models = add_python_model(tmp_path / "models", source="raise RuntimeError('no luck today')\n")
    failure = failed_start(start(models, ready=False))
    assert "exit status 1" in failure.message
    assert "no luck today" in failure.message
    assert "Cuda" not in failure.message
    assert "no luck today" in failure.log


def test_timeout_and_rejected_options_are_reported(start, tmp_path):
    models = add_python_model(tmp_path / "models", source="import time; time.sleep(100)\n")
    server = start(models, ready=False)
    with pytest.raises(TritonFailedError, match="within 1 s"):
        server.wait_ready(timeout_s=1)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ServeRejectedError):
        start(tmp_path / "empty")


@pytest.mark.usefixtures("on_host")
def test_no_end_waits_for_the_model(installation, tmp_path):
    """A request has its time limit; a stop and the end of the block wait for neither answers nor models."""
    regions = shared_memory_left_behind()
    body = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[5]}]}'
    ends: list[object] = []

    def send() -> None:
        try:
            ends.append(server.request("POST", "/invocations", body=body).status != 200)
        except (TritonRequestError, TritonFailedError):
            ends.append(True)

    server = TritonServer.start(
        installation=installation,
        model_root=add_python_model(tmp_path / "models", source=SLOW),
        environment={},
        state_dir=tmp_path / "state",
    )
    thread = threading.Thread(target=send)
    with server:
        server.wait_ready(timeout_s=60)
        assert outputs(invoke(server, [1.0])) == {"y": [-1.0]}
        with pytest.raises(TritonTimeoutError):
            server.request("POST", "/invocations", body=body, timeout_s=0.5)
        thread.start()
        time.sleep(0.2)
        begin = time.monotonic()
    assert time.monotonic() - begin < 10
    thread.join()
    assert ends == [True]
    assert processes_writing_to(server.log_path) == []
    assert shared_memory_left_behind() <= regions


def test_everything_ends_when_the_parent_is_killed(on_host, installation, tmp_path):
    models, state = add_python_model(tmp_path / "models"), tmp_path / "state"
    regions = shared_memory_left_behind()
    arguments = [str(installation.root), str(models), str(state), str(on_host)]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        assert len(processes_writing_to(state / "triton.log")) > 2
        parent.send_signal(signal.SIGKILL)
    assert wait_until_gone(state / "triton.log")
    assert shared_memory_left_behind() <= regions
