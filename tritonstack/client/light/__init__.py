"""The light transport: InvokeEndpoint with less CPU per call than boto3, on boto3's configuration.

runtime = LightRuntime()  # in place of boto3.client("sagemaker-runtime")
client = EndpointClient(endpoint_name="embedder", runtime=runtime)
"""

from tritonstack.client.light.runtime import LightRuntime

__all__ = ["LightRuntime"]
