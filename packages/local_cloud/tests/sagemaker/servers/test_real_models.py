"""Multi-model endpoints and two variants with a real Triton: single models and an ensemble."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.sagemaker.cloud import IMAGE, role_of
from packages.local_cloud.tests.sagemaker.fakes import tarball
from packages.local_cloud.tests.sagemaker.test_real_triton import (
    BROKEN,
    CONFIG,
    MODEL,
    logged,
    real_cloud,
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
