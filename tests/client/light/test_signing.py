"""Every request is signed, addressed and headed as botocore would."""

import datetime
import functools
import string

import boto3
import botocore.auth
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.credentials import ReadOnlyCredentials
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tritonstack.client.light.boto3_bridge import Boto3Bridge, Boto3Settings
from tritonstack.client.light.connections import RequestSigner, RequestTemplate

PRINTABLE = st.text(st.sampled_from(string.ascii_letters + string.digits + " /.-_=;,+%&\t\"'é漢"), min_size=1)
HEADER = PRINTABLE.map(str.strip).filter(bool)
NAME = st.from_regex(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,40}", fullmatch=True)
ARN = NAME.map(lambda name: f"arn:aws:sagemaker:eu-west-1:111111111111:endpoint/{name}")
FIELDS = st.fixed_dictionaries(
    {"EndpointName": NAME | ARN},
    optional={
        "ContentType": HEADER,
        "Accept": HEADER,
        "CustomAttributes": HEADER,
        "TargetModel": HEADER,
        "TargetVariant": NAME,
        "TargetContainerHostname": NAME,
        "InferenceId": HEADER,
        "EnableExplanations": HEADER,
        "InferenceComponentName": NAME,
        "SessionId": HEADER,
    },
)
CREDENTIALS = st.builds(
    ReadOnlyCredentials,
    access_key=st.text(string.ascii_uppercase + string.digits, min_size=16, max_size=20),
    secret_key=st.text(string.ascii_letters + string.digits + "/+", min_size=1, max_size=60),
    token=st.none() | st.text(string.ascii_letters + string.digits + "/+=", min_size=1, max_size=400),
)
URLS = (
    None,
    "http://127.0.0.1:8000",
    "https://proxy.example/a%20b/stage",
    "https://[::1]:8443",
    "https://h:443/x/",
)
UNSIGNED = {"user-agent", "content-length", "authorization"}
CHOSEN_BY_EACH = {"authorization", "x-amz-date", "content-length", "amz-sdk-invocation-id", "amz-sdk-request"}


@functools.cache
def bridge(url):
    return Boto3Bridge(Boto3Settings(session(), "eu-west-1", url, None, None))


@functools.cache
def session():
    return boto3.Session("AKIDEXAMPLE", "verysecret", "token", "eu-west-1")


@functools.cache
def boto3_client(url):
    return session().client("sagemaker-runtime", endpoint_url=url)


def parsed(message):
    head, _, body = message.partition(b"\r\n\r\n")
    line, *headers = head.decode().split("\r\n")
    return line, dict(header.split(": ", 1) for header in headers), body


def as_boto3_sends(url, call):
    """The request that boto3 would send."""
    requests = []

    # An answer to before-send replaces the network call.
    def keep(request, **_):
        requests.append(request)
        return AWSResponse(request.url, 200, {}, type("Raw", (), {"stream": lambda self: iter(())})())

    client = boto3_client(url)
    client.meta.events.register("before-send.sagemaker-runtime.InvokeEndpoint", keep, "keep")
    try:
        client.invoke_endpoint(**call)
    finally:
        client.meta.events.unregister("before-send.sagemaker-runtime.InvokeEndpoint", unique_id="keep")
    return requests[0]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    url=st.sampled_from(URLS),
    fields=FIELDS,
    body=st.binary(max_size=300),
    credentials=CREDENTIALS,
    region=st.sampled_from(["eu-west-1", "us-gov-west-1", "cn-north-1"]),
)
@example(  # inner white space counts once
    url=None,
    fields={"EndpointName": "e", "CustomAttributes": "a  b \t c"},
    body=b"",
    credentials=ReadOnlyCredentials("A", "b", None),
    region="eu-west-1",
)
def test_signatures_equal_botocores(monkeypatch, url, fields, body, credentials, region):
    template = bridge(url).template(fields)
    signer = RequestSigner(region=region, service="sagemaker")
    line, headers, content = parsed(signer.message(template, body=body, by=credentials))
    now = datetime.datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ")
    assert abs((datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - now).total_seconds()) < 60
    signed = {name: value for name, value in headers.items() if name not in UNSIGNED}
    request = AWSRequest("POST", template.url, headers=signed, data=body)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: now)
    SigV4Auth(credentials, "sagemaker", region).add_auth(request)
    assert headers["authorization"] == request.headers["Authorization"]
    assert content == body
    assert headers["content-length"] == str(len(body))
    assert line == f"POST {template.target} HTTP/1.1"


@settings(max_examples=80, deadline=None)
@given(url=st.sampled_from(URLS), fields=FIELDS, body=st.binary(max_size=50))
def test_requests_equal_boto3s(url, fields, body):
    call = {**fields, "Body": body}
    expected = as_boto3_sends(url, call)
    template = bridge(url).template(fields)
    _, headers, content = parsed(bridge(url).message(template, body))
    assert template.url == expected.url
    assert content == (expected.body or b"")

    def comparable(headers):
        texts = {
            name.lower(): value.decode() if isinstance(value, bytes) else value for name, value in headers
        }
        return {name: value for name, value in texts.items() if name not in CHOSEN_BY_EACH | {"host"}}

    assert comparable(headers.items()) == comparable(expected.headers.items())


def test_the_signing_key_follows_the_day_and_the_secret(monkeypatch):
    signer = RequestSigner(region="eu-west-1", service="sagemaker")
    template = RequestTemplate("http://h/", "/", "/", {"host": "h"}, {})
    signatures = set()
    for day, secret in [(1, "a"), (2, "a"), (2, "b"), (1, "a")]:
        moment = f"2026010{day}T000000Z"
        monkeypatch.setattr("tritonstack.client.light.connections.strftime", lambda *_, moment=moment: moment)
        credentials = ReadOnlyCredentials("A", secret, None)
        _, headers, _ = parsed(signer.message(template, body=b"", by=credentials))
        request = AWSRequest("POST", "http://h/", headers={"host": "h"}, data=b"")
        now = datetime.datetime.strptime(moment, "%Y%m%dT%H%M%SZ")
        monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda now=now: now)
        SigV4Auth(credentials, "sagemaker", "eu-west-1").add_auth(request)
        assert headers["authorization"] == request.headers["Authorization"]
        signatures.add(headers["authorization"])
    assert len(signatures) == 3
