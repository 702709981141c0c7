"""On a full disk, uploads are rejected, and what was acknowledged is saved once there is room."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
ON_A_SMALL_DISK = """
import sys
import time
from pathlib import Path
from botocore.exceptions import ClientError
from packages.local_cloud.tests.state.restartable_cloud import RestartableCloud

disk = Path(sys.argv[1])
cloud = RestartableCloud(disk / "cloud")

def is_rejected(call, **arguments):
    try:
        call(**arguments)
    except ClientError as error:
        assert error.response["Error"]["Code"] == "InsufficientStorage", error
        assert "free disk space" in str(error), error
        return True
    return False

s3, ssm = cloud.client("s3"), cloud.client("ssm")
s3.create_bucket(Bucket="full", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
ssm.put_parameter(Name="/before", Value="v", Type="String")
stored = 0
while not is_rejected(s3.put_object, Bucket="full", Key=str(stored), Body=b"x" * 2**21):
    stored += 1
assert stored > 2
# Rejected objects are missing; stored ones can be read and deleted.
assert len(s3.list_objects_v2(Bucket="full")["Contents"]) == stored

filler = disk / "filler"
with filler.open("wb", buffering=0) as file:
    try:
        while file.write(b"x" * 4096):
            pass
    except OSError:
        pass
assert is_rejected(ssm.put_parameter, Name="/rejected", Value="v", Type="String")
s3.delete_object(Bucket="full", Key="0")
assert ssm.get_parameter(Name="/before")["Parameter"]["Value"] == "v"

filler.unlink()
for key in range(1, 6):
    s3.delete_object(Bucket="full", Key=str(key))
deadline = time.monotonic() + 60
while is_rejected(ssm.put_parameter, Name="/after", Value="v", Type="String"):
    assert time.monotonic() < deadline, "the space of deleted objects is not free"
    time.sleep(0.5)
cloud.restart()
names = {item["Name"] for item in cloud.client("ssm").describe_parameters()["Parameters"]}
assert names == {"/before", "/after"}, names
assert "1" not in {item["Key"] for item in cloud.client("s3").list_objects_v2(Bucket="full")["Contents"]}
cloud.end()
print("done")
"""
_MOUNT = ("unshare", "--user", "--map-root-user", "--mount")


def can_mount() -> bool:
    try:
        command = (*_MOUNT, "mount", "-t", "tmpfs", "tmpfs", "/mnt")
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.soak
@pytest.mark.skipif(not can_mount(), reason="this system does not let users mount a file system of their own")
def test_a_full_disk_rejects_writes_and_loses_nothing(tmp_path):
    script = textwrap.dedent(ON_A_SMALL_DISK)
    shell = 'mount -t tmpfs -o size=48m tmpfs "$0" && exec "$1" -c "$2" "$0"'
    finished = subprocess.run(
        [*_MOUNT, "sh", "-c", shell, str(tmp_path), sys.executable, script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.stdout.endswith("done\n"), finished.stderr
