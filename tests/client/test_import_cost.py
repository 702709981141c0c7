"""Modules that importing and using the client loads, in a fresh interpreter."""

import subprocess
import sys

import pytest

SERVER_SIDE = {"tritonclient", "aiohttp", "gevent", "geventhttpclient", "rapidjson", "ml_dtypes"}
TOOLING = {"pydantic", "yaml", "aws_cdk", "constructs", "typer", "rich", "docker"}
HEAVY = {*SERVER_SIDE, *TOOLING, "boto3"}
OWN = {f"tritonstack.base.{name}" for name in ("byte_tensors", "error_kinds", "errors")}
"""The only modules of this project that the client loads."""
USE = """
import numpy as np
from tritonstack.client import EndpointClient

class Echo:
    def invoke_endpoint(self, **call):
        import io
        from tritonstack.client import encode_request
        import json
        size = int(call["ContentType"].rpartition("=")[2])
        body = call["Body"]
        outputs = json.loads(body[:size])["inputs"]
        header = json.dumps({"outputs": outputs}).encode()
        return {
            "Body": io.BytesIO(header + body[size:]),
            "ContentType": call["ContentType"].replace(str(size), str(len(header))),
        }

client = EndpointClient(endpoint_name="e", runtime=Echo())
inputs = {"x": np.ones((2, 3), np.float32), "texts": ["one", "two"]}
assert client.infer(inputs)["x"].shape == (2, 3)
"""
LIGHT = """
import os
os.environ.update(AWS_DEFAULT_REGION="eu-west-1", AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b")
from tritonstack.client import EndpointClient
from tritonstack.client.light import LightRuntime
EndpointClient(endpoint_name="e", runtime=LightRuntime())
"""


def loaded_by(code):
    """Return the modules that a program has loaded when it ends."""
    listing = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("code", ["import tritonstack.client", USE], ids=["imported", "used"])
def test_client_loads_no_heavy_module(code):
    loaded = loaded_by(code)
    assert "tritonstack.client" in loaded
    assert loaded & HEAVY == set()
    own = {name for name in loaded if name.split(".")[0] in ("tritonstack", "model_build", "stacks")}
    own = {name for name in own if not name.startswith("tritonstack.client")}
    assert own - {"tritonstack", "tritonstack.base"} <= OWN


def test_the_light_transport_loads_boto3_and_no_http_library():
    loaded = loaded_by(LIGHT)
    assert {"boto3", "tritonstack.client.light"} <= loaded
    assert loaded & ({*HEAVY, "httpx", "requests"} - {"boto3"}) == set()
