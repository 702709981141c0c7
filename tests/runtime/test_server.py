"""A real server: started, invoked, failing, and stopped without leftovers."""

import os
import signal
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from model_build.environments.packing import build_environment
from tests.projects import edit
from tests.runtime.conftest import NEGATE, add_python_model
from tests.runtime.kserve_requests import (
    invoke,
    outputs,
    processes_writing_to,
    shared_memory_left_behind,
    wait_until_gone,
)
from tritonstack.runtime import (
    ServeRejectedError,
    TritonFailedError,
    TritonRequestError,
    TritonServer,
    TritonTimeoutError,
)
from tritonstack.runtime import server as server_module
from tritonstack.runtime.sandbox import EXPOSE

pytestmark = pytest.mark.e2e
Start = Callable[..., TritonServer]

SLOW = """
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        time.sleep(20)
        return [pb_utils.InferenceResponse(error=pb_utils.TritonError("too late")) for _ in requests]
"""

# Starts a server from a thread that ends, then waits to be killed.
PARENT = """
import sys, threading
from pathlib import Path
from tritonstack.runtime import TritonServer, find_installation
from tritonstack.runtime import server as module

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
        monkeypatch.setattr("tritonstack.runtime.sandbox.why_no_namespaces", lambda: "as the test wants it")
        monkeypatch.setattr(server_module, "why_no_namespaces", lambda: "as the test wants it")
    elif (reason := server_module.why_no_namespaces()) is not None:
        pytest.skip(reason)
    return bool(request.param)


@pytest.mark.usefixtures("on_host")
def test_python_model_is_served_and_cleaned_up(start, tmp_path):
    left_before = shared_memory_left_behind()
    server = start(add_python_model(tmp_path / "models"))
    assert outputs(invoke(server, [1.0, 2.0])) == {"y": [-1.0, -2.0]}
    assert server.running
    assert len(processes_writing_to(server.log_path)) > 2
    # What `serve` gives the one copy of the model, and nothing of what others have.
    assert 16 << 20 <= server.shared_memory_held() < 32 << 20
    # A Python of its own for the model weighs some 20 MiB, the server itself 10.
    assert server.shared_memory_held() + (20 << 20) < server.memory_held() < 128 << 20
    server.stop()
    assert processes_writing_to(server.log_path) == []
    assert shared_memory_left_behind() <= left_before
    assert not server.running
    server.stop()
    with pytest.raises(TritonFailedError, match="has ended with exit status 0"):
        invoke(server, [1.0])


def test_on_the_host_a_warning_names_the_lost_isolation(start, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv(EXPOSE, "1")
    monkeypatch.setattr(server_module, "why_no_namespaces", lambda: "as the test wants it")
    start(add_python_model(tmp_path / "models"), ready=False)
    assert "this system forbids user namespaces (as the test wants it)" in caplog.text


def test_two_servers_run_side_by_side_in_folders_with_odd_names(start, tmp_path):
    servers = [start(add_python_model(tmp_path / name)) for name in ("first model's", "$(second) ünit")]
    assert [outputs(invoke(server, [1.0])) for server in servers] == [{"y": [-1.0]}] * 2


def test_the_bound_port_is_honored(start, tmp_path):
    server = start(add_python_model(tmp_path / "models"), SAGEMAKER_BIND_TO_PORT="9876")
    assert outputs(invoke(server, [1.0])) == {"y": [-1.0]}
    assert ":9876" in server.log_tail()


def test_server_gets_only_the_variables_of_the_container(start, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    source = 'import os; print("SEEN", sorted(os.environ), flush=True)\n'
    try_to_write = 'open("/opt/ml/model/new", "w")\n'
    models = add_python_model(tmp_path / "models", source=source + try_to_write)
    server = start(models, ready=False, MY_VARIABLE="1")
    with pytest.raises(TritonFailedError, match="Read-only file system"):
        server.wait_ready(timeout_s=60)
    seen = next(line for line in server.log_path.read_text().splitlines() if line.startswith("SEEN"))
    assert "'MY_VARIABLE'" in seen
    assert "AWS" not in seen


def test_execution_environment_is_unpacked_outside_the_repository(start, installation, tmp_path):
    models = add_python_model(tmp_path / "models", source="import only_here\n" + NEGATE)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    environment = tmp_path / "environment"
    packages = environment / f"lib/{version}/site-packages"
    packages.mkdir(parents=True)
    (packages / "only_here.py").touch()
    (packages / "server.pth").write_text(f"/opt/tritonstack-server/python/lib/{version}/site-packages\n")
    (environment / "bin").mkdir()
    (environment / "bin/python3").symlink_to((installation.root / "python/bin/python3").resolve())
    (environment / "bin/activate").write_text(
        'export PATH="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd):$PATH"\n'
    )
    base = (installation.root / "python/bin/python3").resolve().parent
    (environment / "pyvenv.cfg").write_text(f"home = {base}\ninclude-system-site-packages = false\n")
    with tarfile.open(models / "negate/environment.tar.gz", "w:gz") as archive:
        archive.add(environment, arcname=".")
    with (models / "negate/config.pbtxt").open("a") as config:
        config.write(
            'parameters { key: "EXECUTION_ENV_PATH" '
            'value: { string_value: "$$TRITON_MODEL_DIRECTORY/environment.tar.gz" } }\n'
        )
    left_before = set(Path("/tmp").glob("python_env_*"))  # noqa: S108
    server = start(models)
    assert outputs(invoke(server, [1.0])) == {"y": [-1.0]}
    assert set(Path("/tmp").glob("python_env_*")) <= left_before  # noqa: S108


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
    # The embedded server's Python and NumPy lie elsewhere than an image's.
    python = (installation.root / "python/bin/python3").resolve()
    (environment / "bin/python3").unlink()
    (environment / "bin/python3").symlink_to(python)
    edit(environment / "pyvenv.cfg", "/usr/bin", str(python.parent))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (environment / f"lib/{version}/site-packages/server.pth").write_text(
        f"/opt/tritonstack-server/python/lib/{version}/site-packages\n"
    )
    with tarfile.open(models / "negate/environment.tar.gz", "w:gz") as archive:
        archive.add(environment, arcname=".")
    with (models / "negate/config.pbtxt").open("a") as config:
        config.write(
            'parameters { key: "EXECUTION_ENV_PATH" '
            'value: { string_value: "$$TRITON_MODEL_DIRECTORY/environment.tar.gz" } }\n'
        )
    server = start(models)
    assert outputs(invoke(server, [1.0])) == {"y": [-1.0]}
    commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in processes_writing_to(server.log_path)]
    assert len([command for command in commands if "/watch_stubs.py" in command]) == 1


def test_failed_load_reports_its_reason(start, tmp_path):
    models = add_python_model(tmp_path / "models", source="raise RuntimeError('no luck today')\n")
    server = start(models, ready=False)
    with pytest.raises(TritonFailedError) as caught:
        server.wait_ready(timeout_s=60)
    message = str(caught.value)
    assert message.startswith("tritonserver ended with exit status 1 before it was ready:")
    assert "no luck today" in message
    assert "error: creating server: Invalid argument - load failed for model" in message
    assert "Cuda" not in message
    assert "no luck today" in caught.value.log


def test_timeout_is_reported(start, tmp_path):
    models = add_python_model(tmp_path / "models", source="import time; time.sleep(100)\n")
    server = start(models, ready=False)
    with pytest.raises(TritonFailedError, match="tritonserver was not ready within 1 s"):
        server.wait_ready(timeout_s=1)


def test_rejected_options_start_nothing(start, tmp_path):
    (tmp_path / "models").mkdir()
    with pytest.raises(ServeRejectedError, match="ERROR: No model found in model repository"):
        start(tmp_path / "models")


def test_a_crashed_model_process_is_an_answer_and_stopping_works(start, tmp_path):
    server = start(add_python_model(tmp_path / "models"))
    assert invoke(server, [666.0]).status == 500
    server.stop(grace_s=3)
    assert processes_writing_to(server.log_path) == []


@pytest.mark.usefixtures("on_host")
def test_a_request_has_its_time_limit_and_stop_does_not_wait_for_it(start, tmp_path):
    server = start(add_python_model(tmp_path / "models", source=SLOW))
    with pytest.raises(TritonTimeoutError, match="did not answer POST /invocations in time"):
        server.request("POST", "/invocations", body=body(), timeout_s=0.5)
    ends: list[object] = []

    def ask() -> None:
        try:
            ends.append(server.request("POST", "/invocations", body=body()).status != 200)
        except (TritonRequestError, TritonFailedError):
            ends.append(True)

    asking = threading.Thread(target=ask)
    asking.start()
    server.stop(grace_s=1)
    asking.join()
    assert ends == [True]
    assert processes_writing_to(server.log_path) == []


@pytest.mark.usefixtures("on_host")
def test_leaving_the_context_does_not_wait_for_the_models_to_finalize(installation, tmp_path):
    left_before = shared_memory_left_behind()
    source = f"{NEGATE}\n    def finalize(self):\n        import time\n        time.sleep(20)\n"
    server = TritonServer.start(
        installation=installation,
        model_root=add_python_model(tmp_path / "models", source=source),
        environment={},
        state_dir=tmp_path / "state",
    )
    with server:
        server.wait_ready(timeout_s=60)
        assert outputs(invoke(server, [1.0])) == {"y": [-1.0]}
        left = time.monotonic()
    assert time.monotonic() - left < 10
    assert processes_writing_to(server.log_path) == []
    assert shared_memory_left_behind() <= left_before


def body() -> bytes:
    return b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[1]}]}'


@pytest.mark.usefixtures("on_host")
def test_many_threads_share_a_server(start, tmp_path):
    server = start(add_python_model(tmp_path / "models"))
    answers: list[dict[str, list[float]]] = []

    def ask(number: int) -> None:
        answers.extend(outputs(invoke(server, [float(number)])) for _ in range(20))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer["y"][0] for answer in answers) == sorted(
        -float(n) for n in range(16) for _ in range(20)
    )


def test_everything_ends_when_the_parent_is_killed(on_host, installation, tmp_path):
    models, state = add_python_model(tmp_path / "models"), tmp_path / "state"
    left_before = shared_memory_left_behind()
    arguments = [str(installation.root), str(models), str(state), str(on_host)]
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT), *arguments],
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
    assert shared_memory_left_behind() <= left_before
