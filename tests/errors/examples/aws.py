"""Examples about AWS, deployments, and endpoints: TS5xx."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from botocore.config import Config
from botocore.exceptions import ClientError, NoCredentialsError, ReadTimeoutError

from tests.errors.examples.base import DEV, Setting, case, example
from tests.moto_aws import simulated_aws
from tritonstack.base.yaml import load_document
from tritonstack.cli.main import _described
from tritonstack.client.codec import decode_reply, encode_request
from tritonstack.client.errors import RequestFacts
from tritonstack.client.failures import invocation_error
from tritonstack.client.light import LightRuntime
from tritonstack.constructs.model_data import instance_named
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.environment.tags import parse_moment
from tritonstack.files.records import comparing
from tritonstack.operate.deploy.bootstrap import lacks_bootstrap
from tritonstack.operate.destroy.deletion import _delete
from tritonstack.operate.rollback.rollback import _deleted
from tritonstack.operate.shared import running
from tritonstack.operate.shared.aws import Cloud, require_account
from tritonstack.operate.shared.checkout import Checkout
from tritonstack.operate.shared.deployed import reject_protected
from tritonstack.operate.synth.cdk import CdkCli
from tritonstack.operate.verify import verdicts

CLOUD = Cloud(
    "111111111111",
    "eu-west-1",
    {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-west-1"},
)


def _client_error(operation: str, code: str, message: str, **members: Any) -> ClientError:
    facts: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    return ClientError(facts | members, operation)


class Rejecting:
    """A client, or a cloud, all of whose calls fail with one error."""

    account = "111111111111"

    def __init__(self, operation: str, code: str, message: str) -> None:
        self._error = _client_error(operation, code, message)

    def client(self, _: str) -> Rejecting:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "exceptions":
            raise AttributeError(name)

        def call(**_: Any) -> None:
            raise self._error

        return call


def _environment(shop: Setting) -> EnvironmentSpec:
    return load_document(shop.root / DEV, EnvironmentSpec).record


@example("TS501")
def no_credentials(shop: Setting) -> None:
    """`tritonstack deploy` without credentials."""
    cloud: Any = Rejecting("GetCallerIdentity", "ExpiredToken", "The security token has expired")
    require_account(cloud)


@example("TS503")
def rejected_call(shop: Setting) -> None:
    """AWS rejects a call that a command makes."""
    message = "not authorized to perform DescribeStacks"
    raise _described(_client_error("DescribeStacks", "AccessDenied", message))


@example("TS504")
def no_bootstrap(shop: Setting) -> None:
    """The first deploy into an account."""
    with simulated_aws():
        lacks_bootstrap(CLOUD, _environment(shop).bootstrap, allowed=False)


@example("TS505")
def failed_cdk(shop: Setting) -> None:
    """The CDK CLI ends with an error."""
    program = shop.write("cdk", "#!/bin/sh\necho 'dev-search failed: UPDATE_ROLLBACK_COMPLETE'\nexit 1\n")
    program.chmod(0o755)
    CdkCli(program, shop.root, {}, {}).run("deploy", assembly=shop.root, on_line=lambda _: None)


@example("TS507")
def rolled_back(shop: Setting) -> None:
    """An endpoint whose update was rolled back by an alarm."""
    state = running.EndpointState("tritonstack-dev-search", "config-2", "config-1", "InService")
    shop.patch.setattr(running, "endpoint_states", lambda *_: [state])
    running.require_running(CLOUD, ["tritonstack-dev-search"])


@example("TS508")
def kept_objects(shop: Setting) -> None:
    """A bucket whose policy forbids deletions."""
    denied = {"Key": "models/minilm/model.tar.gz", "Code": "AccessDenied", "Message": "Access Denied"}
    s3 = SimpleNamespace(delete_objects=lambda **_: {"Errors": [denied]})
    _delete(s3, "tritonstack-dev-data", [], lambda _: None)


case(
    "TS509",
    "`tritonstack destroy` of an environment that keeps its data.",
    lambda shop: reject_protected(_environment(shop), shop.root / DEV),
)
case("TS510", "An instance with an invalid `expires` tag.", lambda _: parse_moment("tomorrow"))
case("TS511", "A commit that the clone does not have.", lambda shop: Checkout(shop.root).resolve("0123abc"))


@example("TS513")
def no_record(shop: Setting) -> None:
    """`tritonstack verify` with credentials that may only read."""
    s3 = Rejecting("PutObject", "AccessDenied", "Access Denied")
    shop.patch.setattr(verdicts, "verdict_events", lambda *_: ["event"])
    shop.patch.setattr(verdicts, "record_event", lambda *_: s3.put_object())
    workspace: Any = SimpleNamespace(spec=SimpleNamespace(artifact_bucket="tritonstack-dev-artifacts"))
    verdict: Any = SimpleNamespace(summary="dev: 1 endpoint matches commit 0123abc")
    verdicts.record_verdict(CLOUD, workspace, verdict)


@example("TS514")
def nothing_deployed(shop: Setting) -> None:
    """`tritonstack rollback` in an environment that was never deployed."""
    with simulated_aws():
        _deleted(CLOUD.client("s3"), "tritonstack-dev-artifacts", "models/minilm/")


case(
    "TS515",
    "`TritonEndpoint` with an instance type that does not exist.",
    lambda _: instance_named("ml.c7i.extralarge"),
)
case(
    "TS517",
    "An endpoint answers with another shape than the example.",
    lambda _: comparing.compare("example 0", "embedding", actual=np.zeros((1, 2)), expected=np.zeros((1, 3))),
)
case("TS540", "A text instead of a list of texts as input.", lambda _: encode_request({"TEXT": "Hello."}))
case(
    "TS541",
    "A web page instead of Triton's reply.",
    lambda _: decode_reply(b"<html></html>", content_type="text/html"),
)
case(
    "TS552",
    "The light transport with a retry mode of boto3 that it lacks.",
    lambda _: LightRuntime(region_name="eu-west-1", config=Config(retries={"mode": "adaptive"})),
)


def _invocation(code: str, caption: str, failure: Exception) -> None:
    """Register the example of a code: what boto3 raises in an invocation."""

    def run(_: Setting) -> None:
        raise invocation_error(failure, request=RequestFacts("tritonstack-dev-search"))

    case(code, caption, run)


def _answer(code: str, message: str, **members: Any) -> ClientError:
    return _client_error("InvokeEndpoint", code, message, **members)


_invocation(
    "TS542",
    "A body above SageMaker's limit.",
    _answer("ValidationError", "Request body exceeds the limit of 25 MiB"),
)
_invocation(
    "TS543",
    "A call of an endpoint that does not exist.",
    _answer("ValidationError", "Endpoint tritonstack-dev-search of account 111111111111 not found."),
)
_invocation("TS544", "A call without credentials.", NoCredentialsError())
_invocation(
    "TS546",
    "The model raises an exception.",
    _answer(
        "ModelError",
        "the container answered",
        OriginalStatusCode=500,
        OriginalMessage='{"error": "model.py: division by zero"}',
    ),
)
_invocation(
    "TS548",
    "The client waits no longer.",
    ReadTimeoutError(endpoint_url="https://runtime.sagemaker.eu-west-1.amazonaws.com"),
)
_invocation("TS549", "SageMaker is unavailable.", _answer("ServiceUnavailable", "The service is unavailable"))
