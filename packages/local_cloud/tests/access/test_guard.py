"""The cloud accepts signed requests and denies all others with each service's AWS errors."""

import base64
import hashlib
import http.client
import itertools
import urllib.error
import urllib.request
import zlib
from datetime import UTC, datetime, timedelta
from unittest.mock import patch
from urllib.parse import urlencode, urlsplit

import boto3
import botocore
import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from moto.iam.models import iam_backends
from moto.moto_api._internal import mock_random

from packages.local_cloud.tests.conftest import REGION
from tests.credentials import keys_of
from tritonstack_local.access.own_routes import INVENTORY_PATH

ANYBODY = (
    '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "*"}]}'
)
_names = itertools.count()

CALLS = {
    "sts": lambda it: it.get_caller_identity(),
    "iam": lambda it: it.list_roles(),
    "cloudformation": lambda it: it.list_stacks(),
    "sns": lambda it: it.list_topics(),
    "ec2": lambda it: it.describe_vpcs(),
    "sagemaker": lambda it: it.list_endpoints(),
    "codebuild": lambda it: it.list_projects(),
    "kms": lambda it: it.list_keys(),
    "ssm": lambda it: it.describe_parameters(),
    "logs": lambda it: it.describe_log_groups(),
    "cloudwatch": lambda it: it.list_metrics(),
    "sagemaker-runtime": lambda it: it.invoke_endpoint(EndpointName="none", Body=b"x"),
    "s3": lambda it: it.list_objects_v2(Bucket="a-bucket"),
}
XML = {"sts", "iam", "cloudformation", "sns"}


def client(account, service, *, token=None, **config):
    keys = keys_of(account.endpoint_url, account.account_id)
    return client_with(
        account, service, keys["aws_access_key_id"], keys["aws_secret_access_key"], token, **config
    )


def client_with(account, service, key_id, secret, token=None, **config):
    return boto3.client(
        service,
        endpoint_url=account.endpoint_url,
        region_name=REGION,
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
        aws_session_token=token,
        config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, **config),
    )


def error_of(client, service):
    with pytest.raises(ClientError) as caught:
        CALLS[service](client)
    told = caught.value.response
    return told["Error"]["Code"], told["ResponseMetadata"]["HTTPStatusCode"], told["Error"]["Message"]


def old_request(account, service):
    signed_at = (datetime.now(UTC) - timedelta(minutes=16)).replace(tzinfo=None)
    with patch("botocore.auth.get_current_datetime", lambda remove_tzinfo=True: signed_at):
        return error_of(client(account, service), service)


def denied(*keys, **config):
    """Return a request with these keys, or with those of the account."""
    if keys:
        return lambda account, service: error_of(client_with(account, service, *keys), service)
    return lambda account, service: error_of(client(account, service, **config), service)


def wrong_secret(account, service):
    key_id = keys_of(account.endpoint_url, account.account_id)["aws_access_key_id"]
    return error_of(client_with(account, service, key_id, "embedded"), service)


# The request, and its code in S3, in the query protocol, in JSON, and in EC2.
DENIALS = {
    "wrong secret": (
        wrong_secret,
        *("SignatureDoesNotMatch", "SignatureDoesNotMatch", "InvalidSignatureException", "AuthFailure"),
    ),
    "unknown key": (
        denied("AKIAIOSFODNN7EXAMPLE", "x"),
        *("InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure"),
    ),
    "unsigned": (
        denied(signature_version=botocore.UNSIGNED),
        *("AccessDenied", "MissingAuthenticationToken", "MissingAuthenticationTokenException"),
        "MissingAuthenticationToken",
    ),
    "old": (
        old_request,
        *("RequestTimeTooSkewed", "SignatureDoesNotMatch", "InvalidSignatureException", "RequestExpired"),
    ),
}


@pytest.mark.parametrize("service", CALLS)
@pytest.mark.parametrize("denial", DENIALS)
def test_requests_are_denied_as_on_aws(account, denial, service):
    request, s3, query, json, ec2 = DENIALS[denial]
    code, status, message = request(account, service)
    if service in ("s3", "ec2", *XML):
        expected = {"s3": s3, "ec2": ec2}.get(service, query), 401 if code == "AuthFailure" else 403
    else:
        expected = json, 403 if service == "sagemaker-runtime" else 400
    assert (code, status) == expected
    assert denial != "old" or service == "s3" or "Signature expired" in message


def raw(account, method, target, *, body=b"", headers=None, host=None):
    """Send a raw request; return status, headers, and body."""
    port = urlsplit(account.endpoint_url).port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
    given = {"Host": host if host is not None else f"localhost:{port}", "Content-Length": str(len(body))}
    for name, value in {**given, **(headers or {})}.items():
        if value:
            connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def signed_headers(account, method, target, *, body=b"", service="s3", headers=None, account_id=None):
    keys = keys_of(account.endpoint_url, account_id or account.account_id)
    request = AWSRequest(method, account.endpoint_url + target, data=body, headers=headers or {})
    signer = S3SigV4Auth if service == "s3" else SigV4Auth
    if service == "s3":
        request.headers["x-amz-content-sha256"] = hashlib.sha256(body).hexdigest()
    signer(Credentials(*keys.values()), service, REGION).add_auth(request)
    return dict(request.headers.items())


@pytest.fixture
def bucket(account):
    name = f"guarded-{next(_names)}"
    account.client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    return name


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "localhost",
        "localhost:1",
        "localhost.evil.example:{port}",
        "evil.example.:{port}",
        "127.0.0.1.nip.io:{port}",
        "127.1:{port}",
        "0.0.0.0:{port}",
        "[::]:{port}",
        "localhost:{port}@evil.example",
        "",
    ],
)
def test_a_foreign_host_is_denied_even_with_a_signature(account, bucket, host):
    port = urlsplit(account.endpoint_url).port
    name = host.format(port=port)
    request = AWSRequest("GET", f"http://localhost/{bucket}", headers={"Host": name})
    request.headers["x-amz-content-sha256"] = hashlib.sha256(b"").hexdigest()
    keys = keys_of(account.endpoint_url, account.account_id)
    S3SigV4Auth(Credentials(*keys.values()), "s3", REGION).add_auth(request)
    signed = {key: value for key, value in request.headers.items() if key != "Host"}
    status, _, body = raw(account, "GET", f"/{bucket}", headers=signed, host=name)
    assert status == (403 if host else 400)
    assert b"answers requests to localhost" in body or not host


def test_requests_to_its_own_host_names_are_answered(account, bucket):
    port = urlsplit(account.endpoint_url).port
    for url in (f"http://localhost:{port}", f"http://127.0.0.1:{port}", f"http://LOCALHOST:{port}"):
        keys = keys_of(account.endpoint_url, account.account_id)
        sts = boto3.client("sts", endpoint_url=url, region_name=REGION, **keys)
        assert sts.get_caller_identity()["Account"] == account.account_id
    # Some resolvers do not resolve subdomains of localhost, so the name is sent as a header.
    s3 = boto3.client(
        "s3",
        endpoint_url=account.endpoint_url,
        region_name=REGION,
        config=Config(signature_version="s3v4", s3={"addressing_style": "virtual"}),
        **keys_of(account.endpoint_url, account.account_id),
    )
    for method, call, body in (("PUT", "put_object", b"virtual"), ("GET", "get_object", b"")):
        url = urlsplit(s3.generate_presigned_url(call, {"Bucket": bucket, "Key": "a b/ü"}))
        assert url.hostname == f"{bucket}.localhost"
        status, _, answered = raw(account, method, f"{url.path}?{url.query}", body=body, host=url.netloc)
        assert status == 200
    assert answered == b"virtual"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "something-new"},
    ],
)
def test_web_pages_are_denied_even_with_a_signature(account, bucket, headers):
    for method in ("GET", "POST", "PUT", "OPTIONS"):
        signed = signed_headers(account, method, f"/{bucket}/page")
        status, answered, _ = raw(account, method, f"/{bucket}/page", headers={**signed, **headers})
        assert status == 403
        assert not [name for name in answered if name.startswith("access-control-")]
    for protocol in ({"X-Amz-Target": "AmazonSSM.PutParameter"}, {"Smithy-Protocol": "rpc-v2-cbor"}):
        assert raw(account, "POST", "/", headers={**protocol, **headers})[0] == 403
    assert "Contents" not in account.client("s3").list_objects_v2(Bucket=bucket)


def test_a_long_credential_is_denied_in_every_protocol(account):
    claim = f"AWS4-HMAC-SHA256 Credential={'é' * 40_000}, SignedHeaders=host, Signature={'0' * 64}"
    for protocol in ({}, {"X-Amz-Target": "AmazonSSM.PutParameter"}, {"Smithy-Protocol": "rpc-v2-cbor"}):
        assert raw(account, "POST", "/", headers={"Authorization": claim, **protocol})[0] == 400


def test_no_answer_has_a_cors_header(account, bucket):
    s3 = account.client("s3")
    rule = {"AllowedMethods": ["GET", "PUT"], "AllowedOrigins": ["*"], "AllowedHeaders": ["*"]}
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    own = {"Origin": account.endpoint_url}
    for target, service in ((f"/{bucket}", "s3"), ("/?Action=GetCallerIdentity", "sts")):
        signed = signed_headers(account, "GET", target, service=service)
        status, answered, _ = raw(account, "GET", target, headers={**signed, **own})
        assert status == 200
        assert not [name for name in answered if name.startswith("access-control-")]
        assert raw(account, "OPTIONS", target)[0] == 403


@pytest.mark.parametrize(
    "route",
    [
        "/moto-api/reset",
        "/moto-api/",
        "/moto-api/seed?a=42",
        "/moto-api/config",
        "/%6doto-api/reset",
        "//moto-api/reset",
        "/moto-api/../moto-api/reset",
        "/latest/meta-data/iam/security-credentials/",
        "/latest/api/token",
    ],
)
def test_moto_routes_are_disabled(account, bucket, route):
    for method in ("GET", "POST"):
        for service in (None, "s3", "sts"):
            headers = signed_headers(account, method, route, service=service) if service else {}
            status, _, _ = raw(account, method, route, headers=headers)
            assert status in {403, 404}
    assert account.client("s3").head_bucket(Bucket=bucket)


def test_the_clouds_own_routes_require_a_signature(account):
    assert raw(account, "GET", INVENTORY_PATH)[0] == 403
    signed = signed_headers(account, "GET", INVENTORY_PATH, service="tritonstack")
    assert raw(account, "GET", INVENTORY_PATH, headers=signed)[0] == 200


@pytest.mark.parametrize("name", ["X-Moto-Account-Id", "x_moto_account_id", "X-MOTO-ACCOUNT-ID"])
def test_headers_cannot_change_the_verified_account(account, name):
    signed = signed_headers(account, "GET", "/?Action=GetCallerIdentity", service="sts")
    status, _, body = raw(
        account, "GET", "/?Action=GetCallerIdentity", headers={**signed, name: "999988887777"}
    )
    assert status == 200
    assert f"<Account>{account.account_id}</Account>".encode() in body


def test_user_keys_are_valid_while_active(account):
    iam = account.client("iam")
    user = f"user-{next(_names)}"
    iam.create_user(UserName=user)
    key = iam.create_access_key(UserName=user)["AccessKey"]
    theirs = client_with(account, "sts", key["AccessKeyId"], key["SecretAccessKey"])
    assert theirs.get_caller_identity()["Arn"].endswith(f"user/{user}")
    iam.update_access_key(UserName=user, AccessKeyId=key["AccessKeyId"], Status="Inactive")
    assert error_of(theirs, "sts")[0] == "InvalidClientTokenId"
    iam.update_access_key(UserName=user, AccessKeyId=key["AccessKeyId"], Status="Active")
    assert theirs.get_caller_identity()
    iam.delete_access_key(UserName=user, AccessKeyId=key["AccessKeyId"])
    assert error_of(theirs, "sts")[0] == "InvalidClientTokenId"


def issued_by(account):
    name = f"role-{next(_names)}"
    role = account.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=ANYBODY)["Role"]
    return account.client("sts").assume_role(RoleArn=role["Arn"], RoleSessionName="me")["Credentials"]


def test_temporary_keys_require_their_token_and_expire(account):
    issued, again = issued_by(account), issued_by(account)
    key = issued["AccessKeyId"], issued["SecretAccessKey"]
    identity = client_with(account, "sts", *key, issued["SessionToken"]).get_caller_identity()
    assert identity["Account"] == account.account_id
    for token in (None, again["SessionToken"]):
        assert error_of(client_with(account, "sts", *key, token), "sts")[0] == "InvalidClientTokenId"
        assert error_of(client_with(account, "s3", *key, token), "s3")[:2] == ("InvalidToken", 400)
    iam_backends[account.account_id]["aws"].access_keys[key[0]].expires = datetime.now(UTC)
    assert error_of(client_with(account, "sts", *key, issued["SessionToken"]), "sts")[0] == "ExpiredToken"
    expired = error_of(client_with(account, "s3", *key, issued["SessionToken"]), "s3")
    assert expired[:2] == ("ExpiredToken", 400)


def test_seeding_moto_does_not_predict_secrets(account):
    drawn = []
    for _ in range(2):
        mock_random.seed(42)
        drawn.append(issued_by(account)["SecretAccessKey"])
    assert drawn[0] != drawn[1]


def test_web_identities_are_rejected(account):
    role = account.client("iam").create_role(RoleName="web", AssumeRolePolicyDocument=ANYBODY)["Role"]["Arn"]
    asked = {"RoleArn": role, "RoleSessionName": "me", "WebIdentityToken": "a.forged.token"}
    with pytest.raises(ClientError) as caught:
        account.client("sts").assume_role_with_web_identity(**asked)  # boto3 never signs it
    assert caught.value.response["Error"]["Code"] == "MissingAuthenticationToken"
    target = f"/?Action=AssumeRoleWithWebIdentity&Version=2011-06-15&{urlencode(asked)}"
    assertion = {"RoleArn": role, "PrincipalArn": role, "SAMLAssertion": "Zm9yZ2Vk"}
    for forged in (target, f"/?Action=AssumeRoleWithSAML&Version=2011-06-15&{urlencode(assertion)}"):
        signed = signed_headers(account, "GET", forged, service="sts")
        status, _, answered = raw(account, "GET", forged, headers=signed)
        assert (status, b"InvalidIdentityToken" in answered) == (400, True)
    # Whatever issues a temporary key without a session: it is not valid without token, forever.
    key = iam_backends[account.account_id]["aws"].create_temp_access_key()
    keys = key.access_key_id, key.secret_access_key
    assert error_of(client_with(account, "sts", *keys), "sts")[0] == "ExpiredToken"
    body = b"Action=AssumeRoleWithWebIdentity&Version=2011-06-15"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for target in ("/?Action=AssumeRole", "/?Action=GetCallerIdentity"):
        status, _, answered = raw(account, "POST", target, body=body, headers=form)
        assert status == 403
        assert b"MissingAuthenticationToken" in answered


def test_presigned_urls_need_no_credentials(account, bucket):
    s3 = client(account, "s3", signature_version="s3v4")
    put = s3.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "a b"})
    assert raw(account, "PUT", put.partition(account.endpoint_url)[2], body=b"by link")[0] == 200
    get = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a b"})
    with urllib.request.urlopen(get) as answer:
        assert answer.read() == b"by link"
    for wrong in (get.replace("a%20b", "c"), get.replace("Signature=", "Signature=0"), get.partition("?")[0]):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(wrong)
        assert caught.value.code == 403
    expired = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a b"}, ExpiresIn=-1)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(expired)
    assert caught.value.code in {400, 403}


def test_other_signatures_of_s3_are_denied(account, bucket):
    """Version 2 and forms for POST uploads."""
    s3 = client(account, "s3", signature_version="s3")
    put = s3.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "k"})
    assert raw(account, "PUT", put.partition(account.endpoint_url)[2], body=b"x")[0] == 403
    fields = client(account, "s3", signature_version="s3v4").generate_presigned_post(bucket, "k")["fields"]
    parts = [*fields.items(), ("file", "x")]
    body = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in parts
    )
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    status, _, answer = raw(account, "POST", f"/{bucket}", body=f"{body}--b--\r\n".encode(), headers=headers)
    assert (status, b"AccessDenied" in answer) == (403, True)
    assert account.client("s3").list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_body_that_contradicts_its_signature_changes_nothing(account, bucket):
    signed = signed_headers(account, "PUT", f"/{bucket}/k", body=b"signed")
    status, _, body = raw(account, "PUT", f"/{bucket}/k", body=b"forged", headers=signed)
    assert (status, b"XAmzContentSHA256Mismatch" in body) == (400, True)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    signed = signed_headers(account, "POST", "/", body=b"Action=ListTopics", service="sns", headers=form)
    forged = b"Action=CreateTopic&Name=forged"
    assert raw(account, "POST", "/", body=forged, headers={**form, **signed})[0] == 403
    assert account.client("s3").list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    assert account.client("sns").list_topics()["Topics"] == []


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("Content-MD5", lambda body: hashlib.md5(body, usedforsecurity=False).digest()),
        ("x-amz-checksum-crc32", lambda body: zlib.crc32(body).to_bytes(4, "big")),
        ("x-amz-checksum-sha1", lambda body: hashlib.sha1(body, usedforsecurity=False).digest()),
        ("x-amz-checksum-sha256", lambda body: hashlib.sha256(body).digest()),
    ],
)
def test_content_that_differs_from_its_checksum_is_not_stored(account, bucket, name, digest):
    target = f"/{bucket}/k"
    for content, expected in ((b"other", 400), (b"content", 200)):
        headers = {name: base64.b64encode(digest(content)).decode()}
        signed = signed_headers(account, "PUT", target, body=b"content", headers=headers)
        status, _, answered = raw(account, "PUT", target, body=b"content", headers=signed)
        assert (status, b"BadDigest" in answered) == (expected, expected == 400)
        assert account.client("s3").list_objects_v2(Bucket=bucket)["KeyCount"] == (expected == 200)
