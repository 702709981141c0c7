"""Examples of TS5xx: AWS, deployments, and endpoints."""

from __future__ import annotations

from typing import Any

import numpy as np
from botocore.exceptions import (
    ClientError,
    NoCredentialsError,
    ReadTimeoutError,
)

from tests.errors.examples.base import DEV, Setting, example
from tests.errors.examples.stand_ins import CLOUD, Rejecting, client_error
from tests.moto_aws import simulated_aws
from tritonstack.client.errors import RequestFacts
from tritonstack.client.failures import invocation_error

SEARCH = RequestFacts("tritonstack-dev-search")


def _model_error(status: int, message: str) -> ClientError:
    error = client_error("InvokeEndpoint", "ModelError", "the container answered")
    error.response |= {"OriginalStatusCode": status, "OriginalMessage": message}  # type: ignore[typeddict-unknown-key]
    return error


def _fails(error: Any) -> None:
    raise invocation_error(error, request=SEARCH)


@example("TS501")
def no_credentials(shop: Setting) -> None:
    """`tritonstack deploy` without credentials."""
    from tritonstack.operations import aws

    cloud: Any = Rejecting("GetCallerIdentity", "ExpiredToken", "The security token has expired")
    cloud.account = "111111111111"
    aws.require_account(cloud)


@example("TS503")
def rejected_call(shop: Setting) -> None:
    """AWS rejects a call that a command makes."""
    from tritonstack.cli.main import _described

    raise _described(
        client_error("DescribeStacks", "AccessDenied", "not authorized to perform DescribeStacks")
    )


@example("TS504")
def no_bootstrap(shop: Setting) -> None:
    """The first deploy into an account."""
    from tritonstack.base.yaml import load_document
    from tritonstack.spec.environments.environment import EnvironmentSpec
    from tritonstack.workflows.deployment.bootstrap import lacks_bootstrap

    spec = load_document(shop.root / DEV, EnvironmentSpec).record
    with simulated_aws():
        lacks_bootstrap(CLOUD, spec.bootstrap, allowed=False)


@example("TS505")
def failed_cdk(shop: Setting) -> None:
    """The CDK CLI ends with an error."""
    from tritonstack.operations.deploying.cdk import CdkCli

    program = shop.write("cdk", "#!/bin/sh\necho 'dev-search failed: UPDATE_ROLLBACK_COMPLETE'\nexit 1\n")
    program.chmod(0o755)
    CdkCli(program, shop.root, {}, {}).run("deploy", assembly=shop.root, on_line=lambda _: None)


@example("TS507")
def rolled_back(shop: Setting) -> None:
    """An endpoint whose update was rolled back by an alarm."""
    from tritonstack.operations import running

    state = running.EndpointState("tritonstack-dev-search", "config-2", "config-1", "InService")
    shop.patch.setattr(running, "endpoint_states", lambda *_: [state])
    running.require_running(CLOUD, ["tritonstack-dev-search"])


@example("TS508")
def kept_objects(shop: Setting) -> None:
    """A bucket whose policy forbids deletions."""
    from tritonstack.operations.buckets import _delete

    class RetentionPlan:
        def delete_objects(self, **_: object) -> object:
            denied = {"Key": "models/minilm/model.tar.gz", "Code": "AccessDenied", "Message": "Access Denied"}
            return {"Errors": [denied]}

    _delete(RetentionPlan(), "tritonstack-dev-data", [], lambda _: None)


@example("TS509")
def protected(shop: Setting) -> None:
    """`tritonstack destroy` of an environment that keeps its data."""
    from tritonstack.base.yaml import load_document
    from tritonstack.operations.destruction.protection import reject_protected
    from tritonstack.spec.environments.environment import EnvironmentSpec

    reject_protected(load_document(shop.root / DEV, EnvironmentSpec).record, shop.root / DEV)


@example("TS510")
def invalid_expiry(shop: Setting) -> None:
    """An instance with an invalid `expires` tag."""
    from tritonstack.spec.environments.expiry import parse_moment

    parse_moment("tomorrow")


@example("TS511")
def unknown_commit(shop: Setting) -> None:
    """A commit that the clone does not have."""
    from tritonstack.operations.checkout import Checkout

    Checkout(shop.root).resolve("0123abc")


@example("TS513")
def no_record(shop: Setting) -> None:
    """`tritonstack verify` with credentials that may only read."""
    from types import SimpleNamespace

    from tritonstack.operations.verification import verdicts

    shop.patch.setattr(verdicts, "verdict_events", lambda *_: ["event"])
    cloud = Rejecting("PutObject", "AccessDenied", "Access Denied")
    shop.patch.setattr(verdicts, "record_event", lambda *_: cloud.put_object())
    workspace: Any = SimpleNamespace(spec=SimpleNamespace(artifact_bucket="tritonstack-dev-artifacts"))
    verdict: Any = SimpleNamespace(summary="dev: 1 endpoint matches commit 0123abc")
    verdicts.record_verdict(CLOUD, workspace, verdict)


@example("TS514")
def nothing_deployed(shop: Setting) -> None:
    """`tritonstack rollback` in an environment that was never deployed."""
    from tritonstack.operations.locks.artifact_versions import _deleted

    with simulated_aws():
        _deleted(CLOUD.client("s3"), "tritonstack-dev-artifacts", "models/minilm/")


@example("TS515")
def construct(shop: Setting) -> None:
    """`TritonEndpoint` with an instance type that does not exist."""
    from tritonstack.constructs.model_data import instance_named

    instance_named("ml.c7i.extralarge")


@example("TS517")
def other_shape(shop: Setting) -> None:
    """An endpoint answers with another shape than the example."""
    from tritonstack.records.comparing import compare

    compare("example 0", "embedding", actual=np.zeros((1, 2)), expected=np.zeros((1, 3)))


@example("TS540")
def no_tensor(shop: Setting) -> None:
    """A text instead of a list of texts as input."""
    from tritonstack.client.codec import encode_request

    encode_request({"TEXT": "Hello."})  # type: ignore[dict-item]


@example("TS541")
def no_reply(shop: Setting) -> None:
    """A web page instead of Triton's reply."""
    from tritonstack.client.codec import decode_reply

    decode_reply(b"<html></html>", content_type="text/html")


@example("TS542")
def rejected_request(shop: Setting) -> None:
    """A body above SageMaker's limit."""
    _fails(client_error("InvokeEndpoint", "ValidationError", "Request body exceeds the limit of 25 MiB"))


@example("TS543")
def no_endpoint(shop: Setting) -> None:
    """A call of an endpoint that does not exist."""
    message = "Endpoint tritonstack-dev-search of account 111111111111 not found."
    _fails(client_error("InvokeEndpoint", "ValidationError", message))


@example("TS544")
def no_access(shop: Setting) -> None:
    """A call without credentials."""
    _fails(NoCredentialsError())


@example("TS546")
def failed_model(shop: Setting) -> None:
    """The model raises an exception."""
    _fails(_model_error(500, '{"error": "model.py: division by zero"}'))


@example("TS548")
def timeout(shop: Setting) -> None:
    """The client waits no longer."""
    _fails(ReadTimeoutError(endpoint_url="https://runtime.sagemaker.eu-west-1.amazonaws.com"))


@example("TS549")
def not_ready(shop: Setting) -> None:
    """SageMaker is unavailable."""
    _fails(client_error("InvokeEndpoint", "ServiceUnavailable", "The service is unavailable"))


@example("TS552")
def adaptive_retries(shop: Setting) -> None:
    """The light transport with a retry mode of boto3 that it lacks."""
    from botocore.config import Config

    from tritonstack.client.light import LightRuntime

    LightRuntime(region_name="eu-west-1", config=Config(retries={"mode": "adaptive"}))


@example("TS325")
def oci_image(shop: Setting) -> None:
    """An image that Docker pushed with an OCI manifest."""
    from tritonstack.operations.builds.images import image_digest

    class Registry:
        def client(self, _: str) -> Registry:
            return self

        def describe_images(self, **_: object) -> object:
            return {
                "imageDetails": [{"imageManifestMediaType": "application/vnd.oci.image.manifest.v1+json"}]
            }

    cloud: Any = Registry()
    image_digest(cloud, "111111111111.dkr.ecr.eu-west-1.amazonaws.com/tritonstack-dev/builder:25.04-py3-cpu")
