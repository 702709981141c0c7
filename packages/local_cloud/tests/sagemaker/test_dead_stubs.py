"""A real Triton whose Python stub dies is replaced, in single-model and multi-model mode."""

import os
import signal
import time
from pathlib import Path

import pytest

from model_build.environments.packing import ENV_PARAMETER, ENV_PARAMETER_VALUE, build_environment
from model_build.served.watch_stubs import LOOK_S, UNREAPED_S
from packages.local_cloud.tests.sagemaker import test_real_triton as single_model
from packages.local_cloud.tests.sagemaker.cloud import IMAGE, role_of
from packages.local_cloud.tests.sagemaker.fakes import tarball
from packages.local_cloud.tests.sagemaker.servers import test_real_models as multi_model
from packages.local_cloud.tests.sagemaker.test_real_triton import (
    BROKEN,
    MODEL,
    processes_below,
    real_cloud,
    supervisors,
)
from tritonstack.client import EndpointClientError

pytestmark = pytest.mark.soak

__all__ = ["real_cloud"]

CONFIG = single_model.CONFIG + (
    f'parameters {{ key: "{ENV_PARAMETER}" value: {{ string_value: "{ENV_PARAMETER_VALUE}" }} }}\n'
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The Python environment of a model without requirements."""
    folder = tmp_path_factory.mktemp("environment")
    build_environment((), file=folder / "env.tar.gz", cache_dir=folder / "cache")
    return (folder / "env.tar.gz").read_bytes()


def scaling(code, environment):
    return tarball({"scale/config.pbtxt": CONFIG, "scale/1/model.py": code, "scale/env.tar.gz": environment})


def processes(folder, name):
    """Return the server's processes whose name starts with a prefix."""
    (supervisor,) = supervisors(folder)
    below = processes_below(int(supervisor))
    return [pid for pid in below if (Path("/proc") / str(pid) / "comm").read_text().startswith(name)]


def kill_stub(folder):
    (stub,) = processes(folder, "triton_python_b")
    time.sleep(LOOK_S + 0.5)  # the watcher has seen it running
    os.kill(stub, signal.SIGKILL)


def answers_again(ask, *, value):
    """Return whether the endpoint answers after a failure."""
    deadline, failed = time.monotonic() + 90, False
    while time.monotonic() < deadline:
        try:
            answer = ask()
        except EndpointClientError:
            failed = True
        else:
            if failed:
                return answer == value
        time.sleep(0.2)
    return False


def test_a_multi_model_endpoint_reloads_its_models(real_cloud, environment, tmp_path):
    """Loads that fail, unloads and reloads end no server; a dead stub does."""
    dies = "import os\n" + BROKEN.replace('raise RuntimeError("the vocabulary is missing")', "os._exit(3)")
    codes = {"double": MODEL.replace("FACTOR", "2"), "broken": BROKEN, "dies": dies}
    for name, code in codes.items():
        url = real_cloud.upload(f"endpoints/e/{name}/d/model.tar.gz", scaling(code, environment))
    container = {
        "Image": IMAGE,
        "Mode": "MultiModel",
        "ModelDataUrl": url.removesuffix(f"{name}/d/model.tar.gz"),
        "Environment": multi_model.QUIET,
        "MultiModelConfig": {"ModelCacheSetting": "Disabled"},  # each request loads and unloads
    }
    real_cloud.sagemaker.create_model(
        ModelName="e", ExecutionRoleArn=role_of(real_cloud.sagemaker), PrimaryContainer=container
    )
    container["MultiModelConfig"] = {"ModelCacheSetting": "Enabled"}
    real_cloud.sagemaker.create_model(
        ModelName="k", ExecutionRoleArn=role_of(real_cloud.sagemaker), PrimaryContainer=container
    )
    real_cloud.config("e")
    real_cloud.config("k")
    real_cloud.sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="e")
    assert real_cloud.settled("e")["EndpointStatus"] == "InService"

    def ask(value=7, name="double"):
        return multi_model.infer(real_cloud, f"{name}/d/model.tar.gz", value)

    before = processes(tmp_path, "tritonserver")
    for value in (1, 2):
        assert ask(value) == 2 * value
        for name in ("broken", "dies"):
            with pytest.raises(EndpointClientError):
                ask(name=name)
    time.sleep(UNREAPED_S + 2)
    assert processes(tmp_path, "tritonserver") == before

    real_cloud.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="k")
    assert real_cloud.settled("e")["EndpointStatus"] == "InService"
    assert ask() == 14
    kill_stub(tmp_path)
    assert answers_again(ask, value=14)
