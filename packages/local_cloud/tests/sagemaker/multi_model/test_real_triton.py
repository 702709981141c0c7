"""Multi-model endpoints and two variants with a real Triton: single models and an ensemble."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.sagemaker.cloud import IMAGE, role_of, tarball
from packages.local_cloud.tests.sagemaker.test_real_triton import (
    BROKEN,
    CONFIG,
    MODEL,
    logged,
    real_cloud,
    repository,
    scaling_by,
    supervisors,
)
from tritonstack.client import EndpointClient, MultiModelError

pytestmark = pytest.mark.soak

__all__ = ["real_cloud"]

ENSEMBLE = """
platform: "ensemble"
max_batch_size: 8
input [{ name: "x" data_type: TYPE_FP32 dims: [ -1 ] }]
output [{ name: "y" data_type: TYPE_FP32 dims: [ -1 ] }]
ensemble_scheduling {
  step [
    {
      model_name: "double"
      model_version: -1
      input_map { key: "x" value: "x" }
      output_map { key: "y" value: "doubled" }
    },
    {
      model_name: "treble"
      model_version: -1
      input_map { key: "x" value: "doubled" }
      output_map { key: "y" value: "y" }
    }
  ]
}
"""

QUIET = {"SAGEMAKER_TRITON_LOG_VERBOSE": "false", "SAGEMAKER_TRITON_PING_MODE": "live"}


def chain(first=2, second=3):
    """An ensemble of two models."""
    return tarball(
        {
            "chain/config.pbtxt": ENSEMBLE,
            "chain/1/README": "ensembles need a version folder",
            "double/config.pbtxt": CONFIG,
            "double/1/model.py": MODEL.replace("FACTOR", str(first)),
            "treble/config.pbtxt": CONFIG,
            "treble/1/model.py": MODEL.replace("FACTOR", str(second)),
        }
    )


@pytest.fixture
def endpoint(real_cloud):
    return with_endpoint(real_cloud)


def with_endpoint(real_cloud):
    url = real_cloud.upload("endpoints/e/double/d1/model.tar.gz", scaling_by(2))
    real_cloud.upload("endpoints/e/treble/d2/model.tar.gz", scaling_by(3))
    real_cloud.upload("endpoints/e/chain/d3/model.tar.gz", chain())
    container = {
        "Image": IMAGE,
        "Mode": "MultiModel",
        "ModelDataUrl": url.removesuffix("double/d1/model.tar.gz"),
        "Environment": QUIET,
    }
    real_cloud.sagemaker.create_model(
        ModelName="e", ExecutionRoleArn=role_of(real_cloud.sagemaker), PrimaryContainer=container
    )
    real_cloud.config("e")
    real_cloud.sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="e")
    described = real_cloud.settled("e")
    assert described["EndpointStatus"] == "InService", described.get("FailureReason")
    return real_cloud


def infer(cloud, target, value, **fields):
    client = EndpointClient(endpoint_name="e", runtime=cloud.runtime, target_model=target, **fields)
    return client.infer({"x": np.array([[value]], np.float32)})["y"].item()


def test_two_models_an_ensemble_and_a_fixed_model_answer(endpoint, tmp_path):
    with ThreadPoolExecutor(8) as pool:
        targets = ["double/d1", "treble/d2", "chain/d3"] * 4
        answers = list(pool.map(lambda target: infer(endpoint, f"{target}/model.tar.gz", 7), targets))
    assert answers == [14, 21, 42] * 4
    loads = [line for line in logged(endpoint, "e") if "Loading SageMaker TargetModel" in line]
    deadline = time.monotonic() + 10
    while len(loads) < 3:
        assert time.monotonic() < deadline
        loads = [line for line in logged(endpoint, "e") if "Loading SageMaker TargetModel" in line]
    assert len(loads) == 3, loads

    with pytest.raises(ClientError, match=r"model data\(bucket"):
        endpoint.runtime.invoke_endpoint(EndpointName="e", Body=b"", TargetModel="other/d/model.tar.gz")
    with pytest.raises(ClientError, match="shell"):
        endpoint.runtime.invoke_endpoint(EndpointName="e", Body=b"", TargetModel="$(touch x)")

    broken = tarball({"scale/config.pbtxt": CONFIG, "scale/1/model.py": BROKEN})
    endpoint.upload("endpoints/e/mended/d4/model.tar.gz", broken)
    with pytest.raises(MultiModelError) as caught:
        infer(endpoint, "mended/d4/model.tar.gz", 7)
    assert caught.value.service.original_status == 400
    assert "vocabulary" in caught.value.service.original_message
    assert infer(endpoint, "chain/d3/model.tar.gz", 1) == 6
    endpoint.upload("endpoints/e/mended/d4/model.tar.gz", scaling_by(5))
    assert infer(endpoint, "mended/d4/model.tar.gz", 7) == 35

    endpoint.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="e")
    assert endpoint.settled("e")["EndpointStatus"] == "InService"
    assert infer(endpoint, "chain/d3/model.tar.gz", 2) == 12
    endpoint.sagemaker.delete_endpoint(EndpointName="e")
    endpoint.gone("e")
    assert supervisors(tmp_path) == []


HUNGRY = MODEL.replace(
    "    def execute",
    """    def initialize(self, args):
        self.mark = f"/tmp/{args['model_name'].replace('/', '-')}"  # the server's own, shared by its models
        if others(self.mark):
            raise MemoryError("out of memory")
        open(self.mark, "w").close()

    def finalize(self):
        os.remove(self.mark)

    def execute""",
).replace(
    "import time",
    """import glob
import os
import time


def others(mark):
    return [other for other in glob.glob("/tmp/endpoints-*") if other != mark]
""",
)


def test_a_server_short_of_memory_unloads_models(endpoint, tmp_path):
    """The models report a lack of memory while another one is loaded; Triton answers 507."""
    greedy = MODEL.replace("if x.flat[0] == -1:", 'if x.flat[0] == -1 and glob.glob("/tmp/endpoints-*"):')
    greedy = greedy.replace("minus one is no input", "CUDA out of memory").replace(
        "import time", "import glob"
    )
    endpoint.upload("endpoints/e/endpoints-a/model.tar.gz", repository(HUNGRY.replace("FACTOR", "2")))
    endpoint.upload("endpoints/e/endpoints-b/model.tar.gz", repository(HUNGRY.replace("FACTOR", "3")))
    endpoint.upload("endpoints/e/greedy/model.tar.gz", repository(greedy.replace("FACTOR", "5")))
    assert infer(endpoint, "greedy/model.tar.gz", 1) == 5
    assert infer(endpoint, "endpoints-a/model.tar.gz", 1) == 2
    assert infer(endpoint, "greedy/model.tar.gz", 2) == 10
    assert infer(endpoint, "endpoints-b/model.tar.gz", 1) == 3
    assert infer(endpoint, "greedy/model.tar.gz", -1) == -5
    assert infer(endpoint, "endpoints-a/model.tar.gz", 4) == 8
