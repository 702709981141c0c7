"""A small local cloud: the SageMaker under test, and moto's other services, on one port."""

import contextlib
import gzip
import io
import itertools
import json
import os
import select
import socket
import tarfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from unittest.mock import patch

import boto3
from botocore.config import Config
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

from tritonstack.runtime import (
    TritonEndedError,
    TritonFailedError,
    TritonRequestError,
    TritonResponse,
    TritonTimeoutError,
)
from tritonstack.runtime.async_connections import in_thread, open_stream
from tritonstack_local.cloudwatch.metrics import Metrics
from tritonstack_local.sagemaker import SageMakerApp, create_app
from tritonstack_local.sagemaker.dependencies import Dependencies
from tritonstack_local.sagemaker.servers.limits import ServerSlots
from tritonstack_local.service import wire
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.settings import TimeScale
from tritonstack_local.signatures.keys import CloudSecret, access_key_for, account_in_key, read_credential

REGION = "eu-west-1"
IMAGE = f"763104351884.dkr.ecr.{REGION}.amazonaws.com/sagemaker-tritonserver:24.09-py3"
BUCKET = "artifacts"

_BUSY = ("Creating", "Updating", "RollingBack", "SystemUpdating", "Deleting")
_accounts = itertools.count(100000000000)
_session = boto3.Session()
_making = threading.Lock()


def role_of(client):
    """A role of the account that the client signs as."""
    account = account_in_key(client._request_signer._credentials.access_key)
    return f"arn:aws:iam::{account}:role/endpoint"


class _Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"  # keep-alive, as on AWS

    def log(self, *_):
        pass


@dataclass
class Cloud:
    """A running cloud, and an account in it."""

    url: str
    app: object
    account: str = field(default_factory=lambda: str(next(_accounts)))
    _clients: dict = field(default_factory=dict)

    def client(self, service, *, account=None, region=REGION):
        """Return a cached client: creating one takes longer than most tests."""
        key = (service, account or self.account, region)
        with _making:
            if key not in self._clients:
                self._clients[key] = _session.client(
                    service,
                    endpoint_url=self.url,
                    region_name=region,
                    aws_access_key_id=access_key_for(account or self.account),
                    aws_secret_access_key="x",
                    config=Config(
                        retries={"total_max_attempts": 1},
                        s3={"addressing_style": "path"},
                        max_pool_connections=32,
                    ),
                )
        return self._clients[key]

    @property
    def sagemaker(self):
        return self.client("sagemaker")

    @property
    def runtime(self):
        return self.client("sagemaker-runtime")

    def upload(self, key, content):
        s3 = self.client("s3")
        if not s3.list_buckets()["Buckets"]:
            s3.create_bucket(Bucket=self.bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        s3.put_object(Bucket=self.bucket, Key=key, Body=content)
        return f"s3://{self.bucket}/{key}"

    @property
    def bucket(self):
        return f"{BUCKET}-{self.account}"

    def model(self, name, *, url=None, environment=None, **fields):
        container = {"Image": IMAGE, "Environment": environment or {}}
        if url is not None:
            container["ModelDataUrl"] = url
        return self.sagemaker.create_model(
            ModelName=name, ExecutionRoleArn=role_of(self.sagemaker), PrimaryContainer=container, **fields
        )

    def config(self, name, *, model=None, **variant):
        return self.sagemaker.create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=[{**a_variant(model or name), **variant}]
        )

    def described(self, endpoint="e"):
        return self.sagemaker.describe_endpoint(EndpointName=endpoint)

    def create(self, endpoint="e", *, url=None, environment=None, settled=True, **variant):
        """Create an endpoint with a model and a configuration of its name; its server says its name."""
        self.model(endpoint, url=url, environment={"FAKE_ANSWER": endpoint} | (environment or {}))
        self.config(endpoint, **variant)
        self.sagemaker.create_endpoint(EndpointName=endpoint, EndpointConfigName=endpoint)
        return self.settled(endpoint) if settled else None

    def update(self, config, endpoint="e", **options):
        self.sagemaker.update_endpoint(EndpointName=endpoint, EndpointConfigName=config, **options)

    def delete(self, endpoint="e"):
        self.sagemaker.delete_endpoint(EndpointName=endpoint)
        self.gone(endpoint)

    def ask(self, body=b"ask", *, endpoint="e", **fields):
        answer = self.runtime.invoke_endpoint(EndpointName=endpoint, Body=body, **fields)
        return answer["Body"].read().decode()

    def settled(self, endpoint="e", *, timeout_s=60):
        """Wait until an endpoint's operation has ended."""
        eventually(lambda: self.described(endpoint)["EndpointStatus"] not in _BUSY, timeout_s=timeout_s)
        return self.described(endpoint)

    def gone(self, endpoint="e", *, timeout_s=60):
        """Wait until an endpoint is deleted."""
        eventually(lambda: endpoint not in self.endpoint_names(), timeout_s=timeout_s)

    def metric(self, name, *statistics, namespace="AWS/SageMaker", minutes=60):
        """Return statistics of a metric of the variant of the endpoint `e`, each 0 without values."""
        now, span = datetime.now(UTC), timedelta(minutes=minutes)
        variant = {"EndpointName": "e", "VariantName": "AllTraffic"}
        measured = {
            "Namespace": namespace,
            "MetricName": name,
            "Dimensions": [{"Name": key, "Value": value} for key, value in variant.items()],
        }
        queries = [
            {"Id": f"m{number}", "MetricStat": {"Metric": measured, "Period": 7200, "Stat": statistic}}
            for number, statistic in enumerate(statistics)
        ]
        results = self.client("cloudwatch").get_metric_data(
            MetricDataQueries=queries, StartTime=now - span, EndTime=now + timedelta(minutes=1)
        )["MetricDataResults"]
        return tuple(sum(result["Values"]) for result in results)

    def endpoint_names(self):
        return [item["EndpointName"] for item in self.sagemaker.list_endpoints()["Endpoints"]]


def eventually(condition, *, timeout_s=20):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def a_variant(model):
    return {
        "VariantName": "AllTraffic",
        "ModelName": model,
        "InstanceType": "ml.g5.xlarge",
        "InitialInstanceCount": 1,
    }


class PersistenceMiddleware:
    """Sends SageMaker's requests to the app under test and all others to moto, with the caller's account."""

    def __init__(self):
        self.app = None
        self._moto = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ, start_response):
        credential = read_credential(headers={"Authorization": environ.get("HTTP_AUTHORIZATION", "")})
        if credential is not None and credential.service == "sagemaker":
            is_invocation = environ["PATH_INFO"].endswith(("/invocations", "/invocations-response-stream"))
            return (self._invoked(Request(environ)) if is_invocation else self.app)(environ, start_response)
        if credential is not None:
            environ["HTTP_X_MOTO_ACCOUNT_ID"] = account_in_key(credential.access_key)
        return self._moto(environ, start_response)

    def _invoked(self, request):
        """Call SageMaker's runtime as the data plane does."""
        runtime = self.app.runtime
        call = {
            "scope": wire.caller_scope(request, default_region=REGION),
            "endpoint": request.path.split("/")[2],
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "body": request.get_data(),
        }
        try:
            if request.path.endswith("/invocations"):
                answer = runtime.events.run(runtime.invoke(**call))
                return Response(answer.body, answer.status, headers=answer.headers)
            streamed = runtime.events.run(runtime.stream(**call))
            return Response(self._messages(streamed.messages), 200, headers=streamed.headers)
        except ServiceError as error:
            return wire.runtime_failure(error)

    def _messages(self, messages):
        async def following():
            return await anext(messages, b"")

        run = self.app.runtime.events.run
        try:
            while message := run(following()):
                yield message
        finally:
            run(messages.aclose())


# Minutes are short, and the machine holds every instance that a test requests.
FAST = TimeScale(minute_s=0.002)
ROOMY = ServerSlots(cores=64, instance_bytes=1)


@contextmanager
def run_cloud(folder, start_server=None, *, server_home=None, **changes):
    """Run a cloud with fake servers, or with those of an installation; `changes` are to its dependencies."""
    persistence = PersistenceMiddleware()
    http = make_server("127.0.0.1", 0, persistence, threaded=True, request_handler=_Handler)
    http.daemon_threads = True
    url = f"http://127.0.0.1:{http.port}"
    clients = Clients(endpoint_url=url, secret=CloudSecret.random())
    given = {"folder": folder, "region": REGION, "clients": clients, "metrics": Metrics()}
    dependencies = Dependencies(**given | {"time_scale": FAST, "machine": ROOMY} | changes)
    persistence.app = (
        create_app(dependencies=dependencies, server_home=server_home)
        if start_server is None
        else SageMakerApp(dependencies=dependencies, start_server=start_server)
    )
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        # No account has a role here, so none needs the 1,500 policies that moto creates for each.
        with patch.dict(os.environ, MOTO_IAM_LOAD_MANAGED_POLICIES="false"):
            yield Cloud(url=url, app=persistence.app)
    finally:
        persistence.app.close()
        http.shutdown()
        thread.join()
        http.server_close()


def tarball(files):
    """Pack texts or bytes, given by path."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0)


class BlockingServer:
    """Answers the data plane's requests by the blocking `request` of a fake, in a thread each."""

    async def exchange(self, method, path, **fields):
        return await in_thread(partial(self.request, method, path, **fields))


class ScriptedStream:
    """A streamed response over a real connection: JSON chunks, of which some have a meaning of their own.

    Null waits for `released`, a number of bytes becomes a chunk of that size, and `break` closes the
    connection. A first chunk of `status=N` is the status.
    """

    def __init__(self, body, *, released):
        self._script = json.loads(body)
        self._released = released
        self.left = threading.Event()
        """Set when the reader has closed its end."""
        self._ours, self._theirs = socket.socketpair()
        threading.Thread(target=self._play, daemon=True).start()

    def connect(self):
        return self._theirs

    def _play(self):
        with self._ours as ours, contextlib.suppress(OSError):
            while b"\r\n\r\n" not in ours.recv(1 << 16):
                continue
            status, script = "200", list(self._script)
            if script and str(script[0]).startswith("status="):
                status = script.pop(0).removeprefix("status=")
            kind = "text/event-stream; charset=utf-8"
            head = f"HTTP/1.1 {status} OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
            ours.sendall(head.encode())
            for item in script:
                if item is None:
                    self._wait(ours)
                    continue
                if item == "break":
                    return
                chunk = item.encode() if isinstance(item, str) else b"x" * item
                ours.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            ours.sendall(b"0\r\n\r\n")
            ours.recv(1)
            self.left.set()

    def _wait(self, ours):
        while not self._released.wait(0.02):
            if select.select([ours], [], [], 0)[0]:
                self.left.set()
                raise ConnectionResetError


class StrictFakeTriton(BlockingServer):
    """Fakes a Triton server; the container's Environment is its script.

    FAKE_STARTS   "no": never becomes ready; "never": goes on starting until it is stopped
    FAKE_ANSWER   what it answers to a body of `ask`
    A body of `hold` is answered when `released` is set, `status=N` with that status; `slow` and `dead` are
    not answered, and nothing is any more after `die`. It rejects every other method, path and body, and every
    request before it is ready or after it was stopped.
    """

    def __init__(self, order, *, released):
        assert order.model_root.is_dir()
        self.order = order
        self.log_path = order.state_dir / "triton.log"
        self.log_path.write_text("E1121 model: no such tensor\n\nthe server says hello\n")
        self.released = released
        self.holding = threading.Event()
        self.healthy = True
        self._ready = False
        self._stopped = threading.Event()
        self._died = threading.Event()

    async def stream(self, method, path, *, body, headers, timeout_s):
        assert (method, path) == ("POST", "/invocations")
        if self._died.is_set():
            raise TritonEndedError("tritonserver has ended with exit status 139")
        self.streamed = ScriptedStream(body, released=self.released)
        return await open_stream(
            method, path, connect=self.streamed.connect, body=body, headers=headers, timeout_s=timeout_s
        )

    @property
    def running(self):
        return not (self._stopped.is_set() or self._died.is_set())

    def wait_ready(self, *, timeout_s):
        self.startup_timeout_s = timeout_s
        script = self.order.environment.get("FAKE_STARTS", "yes")
        if script == "never":
            self._stopped.wait(timeout_s)
        if script != "yes":
            raise TritonFailedError("tritonserver ended with exit status 1:\nE1121 model: no such tensor")
        self._ready = True

    @property
    def ready(self):
        return self._ready

    @property
    def pid(self):
        return os.getpid()

    def die(self):
        """End without notice, as after kill -9."""
        self._died.set()

    def request(self, method, path, *, body, headers, timeout_s):
        if (method, path) == ("GET", "/ping"):
            return self._answer(200 if self.healthy and self._ready else 400, b"", headers)
        assert (method, path) == ("POST", "/invocations")
        assert self._ready
        if body == b"die":
            self._died.set()
            raise TritonFailedError("tritonserver has ended with exit status 139")
        if self._died.is_set():
            raise TritonEndedError("tritonserver has ended with exit status 139")
        assert self.running, "a request reached a server that was stopped"
        if body == b"ask":
            return self._answer(200, self.order.environment["FAKE_ANSWER"].encode(), headers)
        if body == b"hold":
            self.holding.set()
            assert self.released.wait(30)
            assert self.running, "the server was stopped under a request"
            return self._answer(200, b"held", headers)
        if body == b"slow":
            raise TritonTimeoutError(f"no answer within {timeout_s} s")
        if body == b"dead":
            raise TritonRequestError("connection refused")
        return self._answer(int(body.decode().removeprefix("status=")), b'{"error":"its own words"}', headers)

    def stop(self, *, grace_s=30.0):
        self._stopped.set()

    @staticmethod
    def _answer(status, body, headers):
        echoed = {name.lower(): value for name, value in headers.items()}
        return TritonResponse(status=status, headers=echoed, body=body)


class FakeTritons:
    """Starts StrictFakeTritons and records them."""

    def __init__(self):
        self.started = []
        self.released = threading.Event()

    def __call__(self, order):
        server = StrictFakeTriton(order, released=self.released)
        self.started.append(server)
        return server


def short_id(parameter):
    """Return a short test id: archives are unreadable and differ between runs."""
    return "bytes" if isinstance(parameter, bytes) else None


def tree(folder: Path):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
