"""Raw requests with ambiguous lengths and malformed chunks."""

import socket
from urllib.parse import urlsplit

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from packages.local_cloud.tests.conftest import Account

CHUNKED = "Transfer-Encoding: chunked"


def bucket_of(account: Account) -> str:
    return f"framing-{account.account_id}"


def send(account: Account, framing: str, body: bytes, content: bytes = b"hello") -> bytes:
    """Put an object by a signed request with the given framing; return the raw response."""
    client = account.client("s3")
    client.create_bucket(
        Bucket=bucket_of(account), CreateBucketConfiguration={"LocationConstraint": account.region}
    )
    keys = client._request_signer._credentials
    request = AWSRequest("PUT", f"{account.endpoint_url}/{bucket_of(account)}/k", data=content)
    S3SigV4Auth(Credentials(keys.access_key, keys.secret_key, keys.token), "s3", account.region).add_auth(
        request
    )
    place = urlsplit(account.endpoint_url)
    headers = {"Host": place.netloc, **dict(request.headers.items())}
    lines = [
        f"PUT /{bucket_of(account)}/k HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
        framing,
        "Connection: close",
        "",
        "",
    ]
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        connection.sendall("\r\n".join(lines).encode() + body)
        answer = b""
        while data := connection.recv(65536):
            answer += data
    return answer


@pytest.mark.parametrize(
    ("framing", "body", "content"),
    [
        ("Content-Length: 5", b"hello", b"hello"),
        (CHUNKED, b"5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\n", b"hello!"),
        (CHUNKED, b"0\r\nx-trailer: 1\r\n\r\n", b""),
    ],
)
def test_well_framed_bodies_are_accepted(account, framing, body, content):
    assert send(account, framing, body, content).startswith(b"HTTP/1.1 200 ")
    assert account.client("s3").get_object(Bucket=bucket_of(account), Key="k")["Body"].read() == content


@pytest.mark.parametrize(
    ("framing", "body"),
    [
        ("Content-Length: -1", b"hello"),
        ("Content-Length: 5, 5", b"hello"),
        ("Content-Length: 5\r\nContent-Length: 6", b"hello!"),
        (f"Content-Length: 5\r\n{CHUNKED}", b"0\r\n\r\n"),
        ("Transfer-Encoding: gzip", b"hello"),
        (CHUNKED, b"hello"),
        (CHUNKED, b"-5\r\nhello\r\n0\r\n\r\n"),
        (CHUNKED, b"4\r\nhello\r\n0\r\n\r\n"),
        (CHUNKED, b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    ],
    ids=range(9),
)
def test_ambiguous_lengths_and_malformed_chunks_are_rejected(account, framing, body):
    answer = send(account, framing, body)
    assert answer.split(maxsplit=2)[1] == b"400", answer
    assert account.client("s3").list_objects_v2(Bucket=bucket_of(account)).get("KeyCount") == 0
