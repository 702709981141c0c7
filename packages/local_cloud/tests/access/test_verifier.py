"""The verifier accepts botocore's signatures, and denies requests changed after signing."""

import dataclasses
import hashlib
import io
import time
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore.auth import HmacV1QueryAuth, S3SigV4QueryAuth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from hypothesis import given, settings
from hypothesis import strategies as st

from packages.local_cloud.tests.access.signing import (
    HOST,
    KEY,
    REGION,
    SESSION,
    credentials,
    judge,
    sent,
    signed,
    verifier,
)
from tritonstack_local.access.requests import DeniedError, Reason, SentRequest

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
HEADER_TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)


def utc_now():
    """The current time, as botocore signs with it; tests may run long after import."""
    return datetime.now(UTC)


def denial(request, body=b"", **options):
    with pytest.raises(DeniedError) as caught:
        judge(request, body, **options)
    return caught.value.reason


def with_headers(request, **changed):
    """The same request with other headers; None removes one."""
    names = {name.replace("_", "-"): value for name, value in changed.items()}
    pairs = [pair for pair in request.header_pairs if pair[0].lower() not in names]
    pairs += [(name, value) for name, value in names.items() if value is not None]
    return dataclasses.replace(request, header_pairs=tuple(pairs))


def presigned(method="GET", path="/b/k", *, key=KEY, expires=60, auth=S3SigV4QueryAuth, service="s3"):
    request = AWSRequest(method, f"http://{HOST}{path}")
    auth(credentials(key), service, REGION, expires=expires).add_auth(request)
    return sent(AWSRequest(method, request.url))


def boto_requests(service, call, *, key=KEY, **config):
    """Return what boto3 sends for a call."""
    client = boto3.client(
        service,
        region_name=REGION,
        endpoint_url=f"http://{HOST}",
        aws_access_key_id=key.key_id,
        aws_secret_access_key=key.secret,
        aws_session_token=key.session_token,
        config=Config(retries={"total_max_attempts": 1}, **config),
    )
    seen = []

    def catch(request, **_):
        body = request.body
        body = body.read() if hasattr(body, "read") else body or b""
        seen.append((sent(request), body.encode() if isinstance(body, str) else body))
        raise InterruptedError

    client.meta.events.register("before-send", catch)
    with pytest.raises(InterruptedError):
        call(client)
    return seen[0]


@pytest.mark.parametrize("key", [KEY, SESSION], ids=["account", "session"])
@pytest.mark.parametrize(
    ("service", "call"),
    [
        ("sts", lambda it: it.get_caller_identity()),
        ("iam", lambda it: it.get_role(RoleName="a+b=c,d@e_f-g.h")),
        ("cloudformation", lambda it: it.create_stack(StackName="s", TemplateBody='{"ä": "€ & +"}')),
        ("sagemaker-runtime", lambda it: it.invoke_endpoint(EndpointName="e", Body=b"\xff")),
        ("lambda", lambda it: it.get_function(FunctionName="arn:aws:lambda:eu-west-1:1:function:f:v1")),
        ("s3", lambda it: it.list_objects_v2(Bucket="bb", Prefix="a b/ü+&=%", StartAfter="~'()*!")),
        ("s3", lambda it: it.get_object(Bucket="bb", Key="a//b/../ü +%2F&=~'()*!.txt")),
        ("s3", lambda it: it.put_object(Bucket="bb", Key="k", Body=b"x", Metadata={"a": "two  spaces"})),
        ("s3", lambda it: it.put_object(Bucket="bb", Key="k", Body=io.BytesIO(b"y" * 3000))),
    ],
)  # fmt: skip
def test_boto3_requests_are_verified(service, call, key):
    request, body = boto_requests(service, call, key=key)
    check = judge(request, body)
    assert check.key == key
    assert check.region in {REGION, "us-east-1"}
    if body:
        wrong = bytes([body[0] ^ 1]) + body[1:]
        assert denial(request, wrong) in {Reason.MISMATCH, Reason.PAYLOAD_MISMATCH}
        assert denial(request, body[:-1]) in {Reason.MISMATCH, Reason.PAYLOAD_MISMATCH}
        assert denial(request, body + b"x") in {Reason.MISMATCH, Reason.PAYLOAD_MISMATCH}
    wrong_target = dataclasses.replace(request, target=request.target + ("&a=1" if request.query else "?a=1"))
    assert denial(wrong_target, body) is Reason.MISMATCH


@settings(max_examples=150, deadline=None)
@given(
    path=st.lists(TEXT, max_size=4).map("/".join),
    query=st.lists(st.tuples(TEXT, TEXT), max_size=4, unique_by=lambda pair: pair[0]),
    headers=st.dictionaries(st.from_regex(r"x-amz-[a-z0-9]{1,8}", fullmatch=True), HEADER_TEXT, max_size=3),
    body=st.binary(max_size=40),
    service=st.sampled_from(["s3", "sts", "sagemaker"]),
)
def test_paths_queries_headers_and_bodies_signed_by_botocore_are_verified(
    path, query, headers, body, service
):
    from botocore.utils import percent_encode, percent_encode_sequence

    encoded = "/" + percent_encode(path, safe="/~") + (f"?{percent_encode_sequence(query)}" if query else "")
    request = signed("PUT", encoded, body=body, headers=headers, service=service)
    assert judge(request, body).key == KEY
    assert denial(with_headers(request, host="localhost:1"), body) is Reason.MISMATCH


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_signed_request_with_any_changed_character_is_denied(data):
    request = signed(
        "PUT", "/bucket/key?tagging=&a=b", body=b"body", service="s3", headers={"x-amz-acl": "private"}
    )
    target = data.draw(st.sampled_from(["target", *dict(request.header_pairs)]))
    if target == "target":
        place = data.draw(st.integers(1, len(request.target) - 1))
        text = request.target
        changed = dataclasses.replace(request, target=text[:place] + "Q" + text[place + 1 :])
    else:
        value = dict(request.header_pairs)[target]
        place = data.draw(st.integers(0, len(value) - 1))
        other = value[:place] + ("0" if value[place] != "0" else "1") + value[place + 1 :]
        changed = with_headers(request, **{target.lower().replace("-", "_"): other})
    with pytest.raises(DeniedError):
        judge(changed, b"body")


def test_missing_and_malformed_parts_are_denied():
    request = signed()
    assert denial(with_headers(request, authorization=None)) is Reason.MISSING
    assert denial(with_headers(request, authorization="AWS4-HMAC-SHA256 Credential=x")) is Reason.INCOMPLETE
    assert (
        denial(with_headers(request, authorization="AWS4-ECDSA-P256-SHA256 Credential=x"))
        is Reason.UNSUPPORTED
    )
    assert denial(with_headers(request, authorization="Basic abc")) is Reason.UNSUPPORTED
    assert denial(with_headers(request, x_amz_date="yesterday")) is Reason.INCOMPLETE
    without_region = dict(request.header_pairs)["Authorization"].replace(f"/{REGION}/", "//")
    assert denial(with_headers(request, authorization=without_region)) is Reason.INCOMPLETE
    doubled = dataclasses.replace(request, header_pairs=(*request.header_pairs, request.header_pairs[-1]))
    assert denial(doubled) is Reason.INCOMPLETE
    for target in ("http://localhost:4566/", "*", "", "/a#b", "/a\tb", "/\xff"):
        assert denial(dataclasses.replace(request, target=target)) is Reason.INCOMPLETE
    unsigned_hash = with_headers(signed(service="s3"), x_amz_content_sha256=None)
    assert denial(unsigned_hash) is Reason.MISSING_PAYLOAD_HASH
    assert denial(with_headers(signed(service="s3"), x_amz_acl="public-read")) is Reason.ACCESS_DENIED


def test_other_keys_secrets_and_tokens_are_denied():
    assert denial(signed(key=dataclasses.replace(KEY, key_id="AKIA0000999999999999"))) is Reason.UNKNOWN_KEY
    assert denial(signed(key=dataclasses.replace(KEY, secret="embedded"))) is Reason.MISMATCH
    for token in (None, "another"):
        assert denial(signed(key=dataclasses.replace(SESSION, session_token=token))) is Reason.INVALID_TOKEN
    assert denial(signed(key=dataclasses.replace(KEY, session_token="left-over"))) is Reason.INVALID_TOKEN
    assert denial(signed(key=SESSION), now=utc_now() + timedelta(hours=4)) is Reason.EXPIRED_TOKEN


@pytest.mark.parametrize("minutes", [-16, 16])
@pytest.mark.parametrize("service", ["s3", "sts"])
def test_clock_skew_over_15_minutes_is_denied(service, minutes):
    request = signed(service=service)
    assert denial(request, now=utc_now() + timedelta(minutes=minutes)) is Reason.SKEWED
    assert judge(request, now=utc_now() + timedelta(minutes=minutes * 14 / 16)).key == KEY


def test_presigned_urls_are_valid_until_they_expire():
    for key in (KEY, SESSION):
        url = presigned(path="/b/a%20b?versionId=1", key=key)
        assert judge(url).key == key
        assert denial(url, now=utc_now() + timedelta(seconds=90)) is Reason.PRESIGNED_EXPIRED
        assert denial(url, now=utc_now() - timedelta(minutes=16)) is Reason.SKEWED
        assert denial(dataclasses.replace(url, target=url.target.replace("a%20b", "c"))) is Reason.MISMATCH
        assert denial(dataclasses.replace(url, method="DELETE")) is Reason.MISMATCH
        longer = dataclasses.replace(url, target=url.target.replace("Expires=60", "Expires=600000"))
        assert denial(longer) is Reason.MISMATCH
    identity = presigned(
        path="/?Action=GetCallerIdentity&Version=2011-06-15", auth=SigV4QueryAuth, service="sts"
    )
    assert judge(identity).key == KEY
    assert denial(identity, b"a body that was not signed") is Reason.MISMATCH
    assert denial(presigned(expires=700_000)) is Reason.INCOMPLETE
    assert denial(presigned(expires=0)) is Reason.INCOMPLETE
    both = dataclasses.replace(presigned(), header_pairs=signed(service="s3").header_pairs)
    assert denial(both) is Reason.INCOMPLETE


def test_signature_version_2_is_denied():
    request = AWSRequest("GET", f"http://{HOST}/b/k")
    HmacV1QueryAuth(credentials(), expires=60).add_auth(request)
    assert denial(sent(AWSRequest("GET", request.url))) is Reason.MISSING


@pytest.mark.parametrize("kind", ["UNSIGNED-PAYLOAD-TRAILER", "AWS4-HMAC-SHA256-PAYLOAD"])
def test_bodies_in_chunks_are_not_supported(kind):
    request = with_headers(signed(service="s3"), x_amz_content_sha256=f"STREAMING-{kind}")
    assert denial(request) is Reason.UNSUPPORTED


def test_a_declared_hash_does_not_replace_that_of_the_body():
    """Services other than S3 get clients' hashes too, such as those of AWS's JavaScript SDK."""
    honest = {"x-amz-content-sha256": hashlib.sha256(b"body").hexdigest()}
    request = signed(body=b"body", headers=honest, service="sagemaker")
    assert judge(request, b"body").key == KEY
    assert denial(request, b"forged") is Reason.MISMATCH


def test_verifying_an_invocation_is_cheap():
    """Verification adds less than 0.2 ms per request (best of many runs)."""
    body = b"x" * 1000
    request = signed("POST", "/endpoints/e/invocations", body=body, service="sagemaker")
    judged, best = verifier(), 1.0
    for _ in range(200):
        fresh = SentRequest(request.method, request.target, request.header_pairs)
        begun = time.perf_counter()
        check = judged.begin(fresh)
        check.payload.update(body)
        check.payload.finish()
        best = min(best, time.perf_counter() - begun)
    assert best < 0.0002


def test_the_secret_is_never_shown():
    assert KEY.secret not in repr(KEY)
    assert SESSION.session_token not in repr(SESSION)
    assert KEY.secret not in repr(verifier().begin(signed(service="s3")))
