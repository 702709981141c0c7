"""Sources of builds."""

import json

import pytest

from packages.local_cloud.tests.codebuild.conftest import spec, why


def test_an_archive_is_unpacked_with_its_modes_and_its_buildspec_is_found(account):
    files = {
        "buildspec.yml": "version: 0.2\nphases: {build: {commands: [./run.sh]}}\n",
        "run.sh": "echo ran\n",
    }
    location = account.upload("a.zip", {**files, "deep/er/file": "x"}, modes={"run.sh": 0o755})
    account.project(source={"type": "S3", "location": location})
    build = account.ended(account.start())
    assert account.said(build) == ["ran"]
    assert build["resolvedSourceVersion"] == f"arn:aws:s3:::{location}"
    other = account.upload("b.zip", {"specs/other.yml": json.dumps(spec("ls -R"))})
    build = account.ended(
        account.start(sourceLocationOverride=f"arn:aws:s3:::{other}", buildspecOverride="specs/other.yml")
    )
    assert account.said(build) == [".:", "specs", " ", "./specs:", "other.yml"]
    assert build["source"]["location"] == f"arn:aws:s3:::{other}"


def test_an_s3_prefix_is_a_source_and_the_buildspec_may_be_in_s3(account):
    s3 = account.client("s3")
    for key, text in (("tree/a", "1"), ("tree/b/c", "2"), ("spec.yml", json.dumps(spec("cat a b/c")))):
        s3.put_object(Bucket=account.bucket, Key=key, Body=text.encode())
    account.project(
        f"arn:aws:s3:::{account.bucket}/spec.yml",
        source={
            "type": "S3",
            "location": f"{account.bucket}/tree/",
            "buildspec": f"arn:aws:s3:::{account.bucket}/spec.yml",
        },
    )
    assert account.said(account.ended(account.start())) == ["12"]


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


def test_a_source_without_a_buildspec_fails_the_build(account):
    account.project(source={"type": "S3", "location": account.upload("x.zip", {"f": "x"})})
    code, words = why(account.ended(account.start()), "DOWNLOAD_SOURCE")
    assert code == "YAML_FILE_ERROR"
    assert "/buildspec.yml" in words
