"""Sources of builds."""

import json

import pytest

from packages.local_cloud.tests.codebuild.conftest import spec, why


def test_an_archive_is_unpacked_with_its_modes(account):
    files = {"run.sh": "echo ran\n", "deep/er/file": "x"}
    location = account.upload("a.zip", files, modes={"run.sh": 0o755})
    buildspec = json.dumps(spec("./run.sh", "cat deep/er/file"))
    account.project(source={"type": "S3", "location": location, "buildspec": buildspec})
    build = account.ended(account.start())
    assert account.said(build) == ["ran", "x"]
    assert build["resolvedSourceVersion"] == f"arn:aws:s3:::{location}"
    other = account.upload("b.zip", {"specs/other": "x"})
    build = account.ended(
        account.start(
            sourceLocationOverride=f"arn:aws:s3:::{other}", buildspecOverride=json.dumps(spec("ls -R"))
        )
    )
    assert account.said(build) == [".:", "specs", " ", "./specs:", "other"]
    assert build["source"]["location"] == f"arn:aws:s3:::{other}"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (None, "key x.zip, error: NoSuchKey"),
        ({"../outside": "x"}, "../outside"),
        ("no archive", "File is not a zip file"),
        ({"file": "x", "file/below": "y"}, "Not a directory"),
        ({"n" * 256: "x"}, "File name too long"),
    ],
)
def test_an_unavailable_source_fails_the_build(account, files, message):
    if isinstance(files, dict):
        account.upload("x.zip", files)
    elif files is not None:
        account.client("s3").put_object(Bucket=account.bucket, Key="x.zip", Body=files.encode())
    source = {"type": "S3", "location": f"{account.bucket}/x.zip", "buildspec": json.dumps(spec("true"))}
    account.project(source=source)
    build = account.ended(account.start())
    assert build["buildStatus"] == "FAILED"
    code, words = why(build, "DOWNLOAD_SOURCE")
    assert code == "CLIENT_ERROR"
    assert message in words
