"""Requests are judged by their heads, and every error is the service's own, whatever a client sends."""

import contextlib
import io
import json
import logging
import re
import socket
import struct
import threading
import time
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import BotoCoreError

from packages.local_cloud.tests.access.test_guard import raw, signed_headers
from packages.local_cloud.tests.front.conftest import Connection, eventually
from tests.credentials import keys_of
from tritonstack_local import front
from tritonstack_local.access import requests as limits
from tritonstack_local.access.guard import Guard
from tritonstack_local.access.requests import SentRequest

JSON = {
    "application-autoscaling": "AnyScaleFrontendService.DescribeScalableTargets",
    "codebuild": "CodeBuild_20161006.CreateProject",
    "ecr": "AmazonEC2ContainerRegistry_V20150921.PutImage",
    "events": "AWSEvents.PutTargets",
    "kms": "TrentService.Encrypt",
    "logs": "Logs_20140328.PutLogEvents",
    "sagemaker": "SageMaker.CreateModel",
    "secretsmanager": "secretsmanager.CreateSecret",
    "sqs": "AmazonSQS.CreateQueue",
    "ssm": "AmazonSSM.PutParameter",
    "tagging": "ResourceGroupsTaggingAPI_20170126.GetResources",
}
QUERY = {
    "cloudformation": "CreateStack",
    "ec2": "CreateSecurityGroup",
    "iam": "CreateRole",
    "monitoring": "PutMetricAlarm",
    "sns": "CreateTopic",
    "sts": "AssumeRole",
}
MALFORMED = (
    *(b"null", b"[]", b"1", b'"x"', b'{"a":', b"\xff\xfe", b"[" * 100_000, b""),
    b'{"name":1,"repositoryName":{},"KeyId":[],"Targets":[1],"logEvents":[1],"Tags":"x"}',
)
FORM = "application/x-www-form-urlencoded"


def head_of(service):
    if service in JSON:
        return {"X-Amz-Target": JSON[service], "Content-Type": "application/x-amz-json-1.1"}
    return {"Content-Type": FORM} if service in QUERY else {}


def check_error(status, headers, body):
    """The answer is in a protocol of AWS; an error has a code."""
    assert not headers.get("content-type", "").startswith("text/html"), (status, body)
    if status < 400:
        return None
    if "json" in headers["content-type"]:
        return json.loads(body)["__type"].rpartition("#")[2]
    (code,) = re.findall(rb"<Code>([A-Za-z.]+)</Code>", body)
    return code.decode()


@pytest.mark.parametrize("service", [*JSON, *QUERY, "s3"])
def test_malformed_bodies_get_the_services_own_error(account, service, caplog):
    caplog.set_level(logging.INFO)
    bucket = f"hostile-{account.account_id}"
    account.client("s3").create_bucket(
        Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": account.region}
    )
    for content in MALFORMED:
        method, target, body = "POST", "/", content
        if service == "s3":
            target = f"/{bucket}?delete"
        if service in QUERY:
            body = f"Action={QUERY[service]}&Version=x&Tags.member.x=1&".encode() + content
        headers = head_of(service)
        signed = signed_headers(account, method, target, body=body, service=service, headers=headers)
        answer = raw(account, method, target, body=body, headers={**headers, **signed})
        check_error(*answer)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("service", [*JSON, *QUERY])
def test_a_wrong_signing_service_gets_an_error_of_aws(account, service):
    services = [*JSON, *QUERY, "s3", "tritonstack"]
    for other in services[services.index(service) % 3 :: 3]:
        headers = head_of(service)
        body = f"Action={QUERY[service]}".encode() if service in QUERY else b"{}"
        signed = signed_headers(account, "POST", "/", body=body, service=other, headers=headers)
        check_error(*raw(account, "POST", "/", body=body, headers={**headers, **signed}))


def test_an_error_within_the_cloud_is_logged_in_one_line(account, caplog):
    """Its request and place, not a page for each request."""
    headers = head_of("ecr")
    signed = signed_headers(account, "POST", "/", body=b"{}", service="ecr", headers=headers)
    status, answered, body = raw(account, "POST", "/", body=b"{}", headers={**headers, **signed})
    assert (status, check_error(status, answered, body)) == (500, "InternalFailure")
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "failed: " in line.getMessage()
    assert "\n" not in line.getMessage()
    assert line.exc_info is None


def exchange(account, request):
    """Send these bytes, and nothing after them; return the status and the body of the response."""
    port = urlsplit(account.endpoint_url).port
    with Connection(socket.create_connection(("127.0.0.1", port), timeout=20)) as connection:
        connection.send(request)
        answer = connection.response()
        return answer.status, answer.body


def head(account, service, *, change, length=100_000):
    """The head of a signed request whose body never follows."""
    headers, target = head_of(service), "/"
    if service == "runtime":
        target, service = "/endpoints/e/invocations", "sagemaker"
    signed = signed_headers(account, "POST", target, body=b"x", service=service, headers=headers)
    host = urlsplit(account.endpoint_url).netloc
    lines = {"Host": host, **headers, **signed, "Content-Length": str(length)}
    lines = change({name: str(value) for name, value in lines.items() if value is not None})
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {target} HTTP/1.1\r\n{text}\r\n".encode("latin-1")


def with_authorization(old, new):
    def change(lines):
        assert old in lines["Authorization"]
        return lines | {"Authorization": lines["Authorization"].replace(old, new)}

    return change


DENIED = {
    "unsigned": lambda lines: {name: value for name, value in lines.items() if name != "Authorization"},
    "another host": lambda lines: lines | {"Host": "example.com"},
    "a web page": lambda lines: lines | {"Origin": "https://example.com"},
    "an old date": lambda lines: lines | {"X-Amz-Date": "20200101T000000Z"},
    "a date beyond all calendars": lambda lines: (
        {name: value for name, value in lines.items() if name != "X-Amz-Date"}
        | {"Date": "Fri, 31 Dec 9999 23:59:59 -2359"}
    ),
    "an unknown key": with_authorization("Credential=AKIA", "Credential=AKIB"),
    "an unsigned host": with_authorization("host;", ""),
}


@pytest.mark.parametrize("denied", DENIED)
@pytest.mark.parametrize("service", ["runtime", "ecr", "sagemaker", "iam", "s3"])
def test_a_head_is_judged_before_any_body_is_read(account, service, denied):
    status, body = exchange(account, head(account, service, change=DENIED[denied]))
    assert status in (400, 401, 403)
    assert b"Unable to parse" not in body


@pytest.mark.parametrize("service", [*JSON, *QUERY, "runtime"])
def test_announced_bodies_are_limited_by_service(account, service):
    def unchanged(lines):
        return lines

    request = SentRequest("POST", "/endpoints/e/invocations" if service == "runtime" else "/", ())
    length = limits.largest_body(request, service) + 1
    assert length <= (28 << 20) + 1
    status, body = exchange(account, head(account, service, change=unchanged, length=length))
    code = b"ValidationError" if service == "runtime" else b"RequestEntityTooLarge"
    assert (status, code in body) == (400 if service == "runtime" else 413, True)


def test_a_body_without_a_length_is_limited(account):
    def chunked(lines):
        del lines["Content-Length"]
        return lines | {"Transfer-Encoding": "chunked"}

    size = limits.largest_body(SentRequest("POST", "/", ()), "ssm") + 200_000
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (size, b"x" * size)
    assert exchange(account, head(account, "ssm", change=chunked) + body)[0] == 413
    tiny = b"1\r\nx\r\n" * 110_000 + b"0\r\n\r\n"
    assert exchange(account, head(account, "ssm", change=chunked) + tiny)[0] == 400


@pytest.mark.parametrize("service", JSON)
def test_the_target_must_be_signed(account, service):
    headers = {"Content-Type": "application/x-amz-json-1.1"}
    signed = signed_headers(account, "POST", "/", body=b"{}", service=service, headers=headers)
    target = {"X-Amz-Target": JSON[service]}
    answer = raw(account, "POST", "/", body=b"{}", headers={**headers, **signed, **target})
    assert (answer[0], check_error(*answer)) == (400, "InvalidSignatureException")


@pytest.mark.parametrize("signature", ["%ff", "0", "", "%ff" * 64, "g" * 64, "A" * 64])
def test_presigned_signatures_of_any_form_are_denied(account, signature):
    now = datetime.now(UTC)
    key = keys_of(account.endpoint_url, account.account_id)["aws_access_key_id"]
    query = (
        f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={key}/{now:%Y%m%d}/eu-west-1/s3/aws4_request"
        f"&X-Amz-Date={now:%Y%m%dT%H%M%SZ}&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature={signature}"
    )
    answer = raw(account, "GET", f"/b/k?{query}")
    assert (answer[0], check_error(*answer)) == (403, "SignatureDoesNotMatch")


@pytest.mark.parametrize("target", ["//[", "http://[", "*", "/%", "/\xff"])
def test_odd_targets_leave_no_error_behind(account, target, caplog):
    host = urlsplit(account.endpoint_url).netloc
    status, _ = exchange(account, f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1"))
    assert status in (400, 403)
    assert "Traceback" not in caplog.text


def test_clients_that_hang_up_leave_no_error_behind(account, caplog):
    """Before, within, and after a head; within a body; and with a reset."""
    whole = head(account, "s3", change=lambda lines: lines)
    port = urlsplit(account.endpoint_url).port
    for part in (b"", whole[:20], whole[:-2], whole, whole + b"x", b"GET / HTTP/1.1\r\n\r\n"):
        for resets in (False, True):
            client = socket.create_connection(("127.0.0.1", port))
            client.sendall(part)
            if resets:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
    assert account.client("sts").get_caller_identity()
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_half_sent_requests_end(account, running_cloud, monkeypatch):
    monkeypatch.setattr(front, "BODY_S", 0.1)
    for connection in (options := running_cloud._front.connections._kwargs,):
        monkeypatch.setitem(connection, "keepalive_timeout", 0.1)
        monkeypatch.setitem(options, "lingering_time", 0.1)
    request = head(account, "ssm", change=lambda lines: lines)
    address = "127.0.0.1", running_cloud.port
    opened = [socket.create_connection(address, timeout=20) for _ in range(40)]
    for number, client in enumerate(opened):
        client.sendall((b"G", request[:-2], request, request + b"x")[number % 4])
    for number, client in enumerate(opened):
        with client, client.makefile("rb") as file, contextlib.suppress(ConnectionError):
            assert file.read().startswith(b"HTTP/1.1 400" if number % 4 > 1 else b"")


@pytest.mark.parametrize("denied", [False, True])
def test_a_body_that_trickles_in_ends(account, running_cloud, monkeypatch, denied):
    """Each byte comes long before the client counts as silent."""

    def chunked(lines):
        del lines["Content-Length"]
        return lines | {"Transfer-Encoding": "chunked"}

    monkeypatch.setattr(front, "BODY_S", 0.2)
    monkeypatch.setitem(running_cloud._front.connections._kwargs, "lingering_time", 0.2)
    if denied:
        monkeypatch.setitem(limits._LARGEST, "ssm", 0)
    ended = threading.Event()
    with socket.create_connection(("127.0.0.1", urlsplit(account.endpoint_url).port), timeout=20) as client:
        client.sendall(head(account, "ssm", change=chunked) + b"ffffff\r\n" + b"x" * (1 << 17))

        def trickle():
            with contextlib.suppress(OSError):
                while not ended.wait(0.02):
                    client.sendall(b"x")

        sender = threading.Thread(target=trickle)
        sender.start()
        try:
            with contextlib.suppress(ConnectionError):
                while client.recv(1 << 16):
                    continue
        finally:
            ended.set()
            sender.join()


def test_connections_are_limited(running_cloud, account, monkeypatch):
    """A new client takes the place of the oldest one without a request."""
    opened = running_cloud._front.connections
    running_cloud._front._runtime.events.loop.call_soon_threadsafe(opened.close)  # kept by other tests
    eventually(lambda: not opened.connections)
    monkeypatch.setattr(front, "MOST_CONNECTIONS", 5)
    address = "127.0.0.1", running_cloud.port
    idle = [socket.create_connection(address, timeout=20) for _ in range(8)]
    assert account.client("sts").get_caller_identity()
    assert idle[0].recv(1) == b""
    for client in idle:
        client.close()


def is_answered(account):
    with contextlib.suppress(BotoCoreError):
        return bool(account.client("sts").get_caller_identity())
    return False


def test_unsigned_clients_that_read_nothing_keep_no_other_out(running_cloud, account, monkeypatch):
    """Their requests are denied, and what they leave unread does not count as a running request."""
    monkeypatch.setattr(front, "MOST_CONNECTIONS", 10)
    address = "127.0.0.1", running_cloud.port
    unread = b"GET /?" + b"&" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    silent = []
    for _ in range(60):
        client = socket.create_connection(address, timeout=20)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with contextlib.suppress(OSError):
            client.sendall(unread * 3)
        silent.append(client)
    # A connection of the pool that is idle may be the oldest one.
    eventually(lambda: is_answered(account))
    eventually(lambda: len(running_cloud._front.connections.connections) <= 11)
    for client in silent:
        client.close()


def test_a_burst_of_connections_leaves_no_more_than_the_limit(running_cloud, account, monkeypatch):
    monkeypatch.setattr(front, "MOST_CONNECTIONS", 10)
    loop, address = running_cloud._front._runtime.events.loop, ("127.0.0.1", running_cloud.port)
    loop.call_soon_threadsafe(time.sleep, 0.5)  # all of them are accepted at once
    burst = [socket.create_connection(address, timeout=20) for _ in range(100)]
    eventually(lambda: len(running_cloud._front.connections.connections) <= 11)
    eventually(lambda: is_answered(account))
    for client in burst:
        client.close()


def test_memory_for_unverified_bodies_is_limited(running_cloud, account, monkeypatch):
    monkeypatch.setattr(running_cloud._front, "_room", 150_000)
    first = socket.create_connection(("127.0.0.1", running_cloud.port), timeout=20)
    first.sendall(head(account, "ssm", change=lambda lines: lines))
    eventually(lambda: running_cloud._front._room < 100_000)
    assert exchange(account, head(account, "ssm", change=lambda lines: lines))[0] == 503
    first.close()
    eventually(lambda: running_cloud._front._room == 150_000)


def test_moto_headers_of_clients_reach_no_service(account, running_cloud):
    """moto takes settings from headers; only the verified account is one."""
    headers = signed_headers(account, "GET", "/", service="sts", headers={"X-Moto-Other": "1"})
    host = urlsplit(account.endpoint_url).netloc
    request = SentRequest("GET", "/", tuple({"Host": host, **headers, "X-Moto-Other": "1"}.items()))
    check = Guard(find_key=running_cloud._find_key, port=running_cloud.port).judge(request)
    environ = front._environ(request, check, io.BytesIO())
    assert {name: value for name, value in environ.items() if name.startswith("HTTP_X_MOTO")} == {
        "HTTP_X_MOTO_ACCOUNT_ID": account.account_id
    }
