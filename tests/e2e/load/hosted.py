"""A local cloud as a process, with a small Python ensemble deployed through boto3."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from packages.local_cloud.tests.sagemaker.cloud import IMAGE, REGION, role_of
from packages.local_cloud.tests.sagemaker.fakes import tarball
from tests.e2e.conftest import REPOSITORY
from tritonstack_local.cloud_folder import CloudAddress
from tritonstack_local.process import start_detached, stop
from tritonstack_local.settings import DEFAULT_TIME_SCALE, CloudSettings, TimeScale

ENDPOINT = "crowded"
_BUCKET = "models"
_BUSY = {"Creating", "Updating", "RollingBack", "SystemUpdating", "Deleting"}

_STEP_CONFIG = """
backend: "python"
max_batch_size: 256
input [{ name: "x" data_type: TYPE_FP32 dims: [ 1 ] }]
output [{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] }]
dynamic_batching {}
"""

_STEP = """
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(DELAY_S)
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", FORMULA)]))
        return responses
"""

_ENSEMBLE = """
platform: "ensemble"
max_batch_size: 256
input [{ name: "x" data_type: TYPE_FP32 dims: [ 1 ] }]
output [{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] }]
ensemble_scheduling { step [
  { model_name: "double" model_version: -1
    input_map { key: "x" value: "x" } output_map { key: "y" value: "doubled" } },
  { model_name: "add" model_version: -1
    input_map { key: "x" value: "doubled" } output_map { key: "y" value: "y" } }
] }
"""


def ensemble(*, adds: int, delay_s: float = 0) -> bytes:
    """The archive of an ensemble that doubles a number and adds another one, as slowly as requested."""

    def step(formula: str, delay_s: float) -> str:
        return _STEP.replace("FORMULA", formula).replace("DELAY_S", str(delay_s))

    return tarball(
        {
            "pipeline/config.pbtxt": _ENSEMBLE,
            "pipeline/1/keep": "",
            "double/config.pbtxt": _STEP_CONFIG,
            "double/1/model.py": step("x * 2", 0),
            "add/config.pbtxt": _STEP_CONFIG,
            "add/1/model.py": step(f"x + {adds}", delay_s),
        }
    )


_LIMITED = """
backend: "python"
input [{ name: "x" data_type: TYPE_FP32 dims: [ 1, 1 ] }]
output [{ name: "y" data_type: TYPE_FP32 dims: [ 1, 1 ] }]
dynamic_batching { default_queue_policy { max_queue_size: WAITING } }
"""


def limited(*, formula: str, delay_s: float, waiting: int) -> bytes:
    """The archive of a model that answers one request at a time and rejects those beyond its queue."""
    code = _STEP.replace("FORMULA", formula).replace("DELAY_S", str(delay_s))
    return tarball(
        {
            "pipeline/config.pbtxt": _LIMITED.replace("WAITING", str(waiting)),
            "pipeline/1/model.py": code,
        }
    )


@dataclass(frozen=True)
class HostedCloud:
    """A running cloud, for clients without retries that see every failure."""

    address: CloudAddress

    def client(self, service: str, **options: Any) -> Any:
        variables = self.address.environment()
        return boto3.client(
            service,
            endpoint_url=self.address.endpoint_url,
            region_name=self.address.region,
            aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
            config=Config(
                retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, proxies={}, **options
            ),
        )

    @cached_property
    def sagemaker(self) -> Any:
        return self.client("sagemaker")

    @cached_property
    def runtime(self) -> Any:
        return self.client("sagemaker-runtime", max_pool_connections=256, read_timeout=90)

    def config(self, name: str, archive: bytes, *, instances: int) -> None:
        """Upload a model and create its endpoint configuration."""
        s3 = self.client("s3")
        if not s3.list_buckets()["Buckets"]:
            s3.create_bucket(Bucket=_BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        s3.put_object(Bucket=_BUCKET, Key=f"{name}.tar.gz", Body=archive)
        self.sagemaker.create_model(
            ModelName=name,
            ExecutionRoleArn=role_of(self.sagemaker),
            PrimaryContainer={
                "Image": IMAGE,
                "ModelDataUrl": f"s3://{_BUCKET}/{name}.tar.gz",
                "Environment": {
                    "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "pipeline",
                    "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
                },
            },
        )
        variant = {
            "VariantName": "AllTraffic",
            "ModelName": name,
            "InstanceType": "ml.g5.xlarge",
            "InitialInstanceCount": instances,
            "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
        }
        self.sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])

    def settled(self, *, within_s: float = 240) -> Mapping[str, Any]:
        """Wait until no operation is running."""
        deadline = time.monotonic() + within_s
        while (described := self.described())["EndpointStatus"] in _BUSY:
            assert time.monotonic() < deadline, described
            time.sleep(0.2)
        return described

    def described(self) -> Mapping[str, Any]:
        described: Mapping[str, Any] = self.sagemaker.describe_endpoint(EndpointName=ENDPOINT)
        return described

    def ask(self) -> float:
        """Send one request; return the answer to 20."""
        body = {"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [20]}]}
        answer = self.runtime.invoke_endpoint(
            EndpointName=ENDPOINT, Body=json.dumps(body), ContentType="application/json"
        )
        return float(json.load(answer["Body"])["outputs"][0]["data"][0])


@contextmanager
def hosted_cloud(folder: Path, time_scale: TimeScale = DEFAULT_TIME_SCALE) -> Iterator[HostedCloud]:
    """Run a cloud until the block ends."""
    settings = CloudSettings(
        state_dir=folder,
        server_home=REPOSITORY.state_dir / "server",
        account_id="123456789012",
        region=REGION,
        time_scale=time_scale,
    )
    address = start_detached(settings)
    try:
        yield HostedCloud(address)
    finally:
        stop(state_dir=folder)
