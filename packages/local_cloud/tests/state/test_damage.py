"""A cloud with damaged state restores the intact part, reports the rest, and is intact afterwards."""

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.cloudformation.stacks import StackDriver, parameter
from packages.local_cloud.tests.sagemaker.cloud import IMAGE, role_of
from packages.local_cloud.tests.state.restartable_cloud import RestartableCloud
from tritonstack_local.cloud_folder import forget

IN_EUROPE = {"LocationConstraint": "eu-west-1"}
ACCOUNT = "300000099999"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a cloud with a bucket, a stack, an endpoint, and resources of other services."""
    folder = tmp_path_factory.mktemp("whole") / "cloud"
    cloud = RestartableCloud(folder, account_id=ACCOUNT)
    s3, sagemaker = cloud.client("s3"), cloud.client("sagemaker")
    s3.create_bucket(Bucket="bodies", CreateBucketConfiguration=IN_EUROPE)
    s3.put_bucket_versioning(Bucket="bodies", VersioningConfiguration={"Status": "Enabled"})
    for key, body in (("a", b"first"), ("a", b"second"), ("b", b"other"), ("gone", b"")):
        s3.put_object(Bucket="bodies", Key=key, Body=body)
    s3.delete_object(Bucket="bodies", Key="gone")
    upload = s3.create_multipart_upload(Bucket="bodies", Key="parts")["UploadId"]
    s3.upload_part(Bucket="bodies", Key="parts", UploadId=upload, PartNumber=1, Body=b"half")
    cloud.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument='{"Version": "2012-10-17"}')
    cloud.client("logs").create_log_group(logGroupName="g")
    StackDriver(cloud.account).create({"A": parameter(Name="/a")})
    sagemaker.create_model(
        ModelName="m", ExecutionRoleArn=role_of(sagemaker), PrimaryContainer={"Image": IMAGE}
    )
    variant = {"VariantName": "v", "ModelName": "m", "InstanceType": "ml.m5.large", "InitialInstanceCount": 1}
    sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c")
    cloud.end()
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    shutil.copytree(whole, tmp_path / "cloud")
    return tmp_path / "cloud"


def rows_of(folder: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(folder / "state" / "cloud.db")) as connection:
        return list(connection.execute("SELECT kind, key FROM row ORDER BY kind, key"))


def damage_row(folder: Path, kind: str, key: str) -> None:
    with closing(sqlite3.connect(folder / "state" / "cloud.db")) as connection:
        where = (kind, key)
        (value,) = connection.execute("SELECT value FROM row WHERE kind = ? AND key = ?", where).fetchone()
        garbled = value[:-1] + bytes([value[-1] ^ 0xFF])
        connection.execute("UPDATE row SET value = ? WHERE kind = ? AND key = ?", (garbled, *where))
        connection.commit()


def answers(cloud: RestartableCloud) -> list[object]:
    """Return what the services list; lost resources may be missing, but no call may fail."""
    client = cloud.client
    calls = (
        lambda: [item["Name"] for item in client("s3").list_buckets()["Buckets"]],
        lambda: [item["Key"] for item in client("s3").list_object_versions(Bucket="bodies")["Versions"]],
        lambda: client("s3").get_object(Bucket="bodies", Key="b")["ContentLength"],
        lambda: client("ssm").get_parameter(Name="/a")["Parameter"]["Value"],
        lambda: [item["RoleName"] for item in client("iam").list_roles()["Roles"]],
        lambda: client("logs").describe_log_groups(logGroupNamePrefix="g")["logGroups"][0]["arn"],
        lambda: [item["StackName"] for item in client("cloudformation").describe_stacks()["Stacks"]],
        lambda: [item["ModelName"] for item in client("sagemaker").list_models()["Models"]],
        lambda: [item["EndpointName"] for item in client("sagemaker").list_endpoints()["Endpoints"]],
        lambda: client("sagemaker").describe_endpoint(EndpointName="e")["EndpointName"],
    )
    return [_answer(call) for call in calls]


def _answer(call: Callable[[], object]) -> object:
    try:
        return call()
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    except LookupError:
        return None
    assert status < 500
    return None


def losses(cloud: RestartableCloud) -> list[str]:
    return [notice for notice in cloud.cloud.notices if "coming back" not in notice]


@contextmanager
def started(folder: Path) -> Iterator[tuple[RestartableCloud, list[str]]]:
    """Start the cloud twice: the second start has no notices."""
    cloud = RestartableCloud(folder, account_id=ACCOUNT)
    try:
        yield cloud, losses(cloud)
        # It serves requests, and persists changes.
        cloud.client("ssm").put_parameter(Name="/after", Value="v", Type="String")
        before = answers(cloud)
        cloud.restart()
        assert losses(cloud) == []
        assert answers(cloud) == before
        assert cloud.client("ssm").get_parameter(Name="/after")["Parameter"]["Value"] == "v"
    finally:
        cloud.end()


LOGS = f"arn:aws:logs:eu-west-1:{ACCOUNT}:log-group:g:*"
EVERYTHING = [["bodies"], ["a", "a", "b", "gone"], 5, "v", ["r"], LOGS, ["stack"], ["m"], ["e"], "e"]


def test_intact_state_starts_without_notices(folder):
    with started(folder) as (cloud, lost):
        assert lost == []
        assert answers(cloud) == EVERYTHING


def lose_each_row(folder: Path, tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    for number, (kind, key) in enumerate(rows):
        copy = tmp_path / str(number)
        shutil.copytree(folder, copy)
        damage_row(copy, kind, key)
        with started(copy) as (cloud, lost):
            assert f"the state is damaged; lost: {kind} {key}; everything else was kept" in lost[0]
            assert str(copy / "state.set-aside-1") in lost[0]
            there = answers(cloud)
            missing = [one for one, usual in zip(there, EVERYTHING, strict=True) if one != usual]
            assert len(missing) <= 3, (kind, key, there)
        assert (copy / "state.set-aside-1" / "cloud.db").exists()
        assert forget(copy)
        assert not (copy / "state.set-aside-1").exists()


def test_a_lost_row_affects_its_own_service_only(folder, tmp_path):
    rows = rows_of(folder)
    assert len(rows) > 10
    lose_each_row(folder, tmp_path, rows[:: len(rows) // 3])


@pytest.mark.parametrize("truncate", [False, True])
def test_lost_bodies_are_reported_and_the_others_kept(folder, *, truncate):
    for body in (folder / "state" / "objects").iterdir():
        if body.read_bytes() in {b"second", b"half"}:
            body.write_bytes(b"x") if truncate else body.unlink()
    with started(folder) as (cloud, lost):
        assert "the bodies of 2 objects" in lost[0]
        assert lost[1].startswith("lost objects without content: s3://bodies/a, the upload ")
        assert lost[1].endswith("of s3://bodies/parts")
        s3 = cloud.client("s3")
        assert s3.get_object(Bucket="bodies", Key="a")["Body"].read() == b"first"
        assert answers(cloud)[1] == ["a", "b", "gone"]
        assert s3.list_multipart_uploads(Bucket="bodies").get("Uploads", []) == []


def test_a_missing_database_is_reported(folder):
    (folder / "state" / "cloud.db").unlink()
    with started(folder) as (cloud, lost):
        assert "cloud.db: the file is missing" in lost[0]
        assert answers(cloud)[0] == []
    assert len(list((folder / "state.set-aside-1" / "objects").iterdir())) > 3


def damage_bytes(folder: Path, seed: int) -> None:
    """Corrupt, truncate, or overwrite a random part of the database file."""
    file, chance = folder / "state" / "cloud.db", random.Random(seed)  # noqa: S311
    content = bytearray(file.read_bytes())
    begin = chance.randrange(len(content))
    size = chance.choice((1, 64, 4096, 20_000))
    if seed % 4 == 0:
        del content[begin:]
    else:
        content[begin : begin + size] = chance.randbytes(len(content[begin : begin + size]))
    file.write_bytes(content)


def lose_bytes(folder: Path, tmp_path: Path, seeds: range) -> int:
    told = 0
    for seed in seeds:
        copy = tmp_path / str(seed)
        shutil.copytree(folder, copy)
        damage_bytes(copy, seed)
        with started(copy) as (cloud, lost):
            told += bool(lost)
            there = answers(cloud)
            assert lost or there == EVERYTHING
    return told


def test_cloud_starts_with_any_damaged_bytes(folder, tmp_path):
    assert lose_bytes(folder, tmp_path, range(4)) > 0
