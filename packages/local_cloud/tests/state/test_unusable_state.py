"""State that is damaged, foreign, of another version, or on a full disk."""

from __future__ import annotations

import io
import os
import resource
import sqlite3
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from tritonstack_local.cloud_folder import forget
from tritonstack_local.state import database, pickling
from tritonstack_local.state.bodies import BodyStore
from tritonstack_local.state.database import Database, StoredRow, own_folder
from tritonstack_local.state.errors import ForeignStateError, NotKeptError, StateInUseError
from tritonstack_local.state.folder import open_state, stamp

ROOT = Path(__file__).parents[4]


def written(folder, rows=40):
    state = open_state(folder)
    state.database.write(
        StoredRow("receipts", f"k{number}", pickling.dumps("x" * 100 * number)) for number in range(rows)
    )
    state.database.close()
    return folder / "cloud.db"


def test_written_rows_are_read_back(tmp_path):
    written(tmp_path / "state", rows=3)
    state = open_state(tmp_path / "state")
    assert state.found == (
        ("receipts", "k0", ""),
        ("receipts", "k1", "x" * 100),
        ("receipts", "k2", "x" * 200),
    )
    state.database.write([StoredRow("receipts", "k1", None)])
    state.database.close()
    assert [key for _, key, _ in open_state(tmp_path / "state").found] == ["k0", "k2"]


def test_a_damaged_byte_is_always_detected(tmp_path):
    file = written(tmp_path / "whole" / "state")
    content, told = file.read_bytes(), 0
    whole = open_state(file.parent)
    whole.database.close()
    for offset in range(0, len(content), 1499):
        garbled = tmp_path / str(offset) / "state" / "cloud.db"
        own_folder(garbled.parent)
        garbled.write_bytes(content[:offset] + bytes([content[offset] ^ 0xFF]) + content[offset + 1 :])
        state = open_state(garbled.parent)
        state.database.close()
        assert set(state.found) <= set(whole.found)
        if state.notices:
            told += 1
            assert "the state is damaged; lost: " in state.notices[0]
            assert "tritonstack down --forget" in state.notices[0]
        else:
            assert state.found == whole.found
    assert told > len(content) // 1499 / 2


def test_disk_errors_are_not_reported_as_damage(tmp_path):
    for name in ("cloud.db", "cloud.new"):
        folder = own_folder(tmp_path / name)
        (folder / name).mkdir(mode=0o700)
        with pytest.raises(NotKeptError, match="cannot write its state"):
            Database(folder / "cloud.db", stamp="any")


def test_a_full_disk_is_not_reported_as_damage(tmp_path):
    file = written(tmp_path / "state")
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(sqlite3.OperationalError) as full:
        connection.execute("INSERT INTO row VALUES ('a', 'b', '', ?)", (b"x" * 2**20,))
    connection.close()
    assert isinstance(database.state_error(file, full.value), NotKeptError)


@pytest.mark.parametrize(("left", "rows"), [(0, 0), (1, 0), (0.5, 10)])
def test_the_rest_of_a_truncated_file_is_read(tmp_path, left, rows):
    file = written(tmp_path / "state")
    content = file.read_bytes()
    os.truncate(file, left if left in {0, 1} else int(len(content) * left))
    state = open_state(tmp_path / "state")
    state.database.close()
    assert len(state.found) >= rows
    assert "the state is damaged; lost: " in state.notices[0]
    assert len((tmp_path / "state.set-aside-1" / "cloud.db").read_bytes()) < len(content)
    again = open_state(tmp_path / "state")
    again.database.close()
    assert again.notices == ()
    assert again.found == state.found


def test_the_state_of_another_version_is_set_aside(tmp_path):
    file = written(tmp_path / "state")
    connection = sqlite3.connect(file)
    connection.execute("UPDATE stamp SET text = 'tritonstack 0.0'")
    connection.commit()
    connection.close()
    state = open_state(tmp_path / "state")
    assert state.found == ()
    assert "written by another version (tritonstack 0.0)" in state.notices[0]
    assert (tmp_path / "state.set-aside-1" / "cloud.db").exists()
    state.database.close()
    assert forget(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert not forget(tmp_path)


def test_a_record_with_other_fields_is_another_version(tmp_path, monkeypatch):
    @dataclass(frozen=True)
    class Record:
        name: str

    Record.__module__, Record.__qualname__ = "tritonstack_local.state.folder", "Record"
    monkeypatch.setattr("tritonstack_local.state.folder.Record", Record, raising=False)
    state = open_state(tmp_path / "state")
    state.database.write([StoredRow("receipts", "k", pickling.dumps(Record("a")))])
    state.database.close()
    monkeypatch.setitem(pickling._FIELDS, Record, ("name", "colour"))
    assert "Record consisted of name" in open_state(tmp_path / "state").notices[0]


def test_a_state_with_earlier_class_names_is_set_aside(tmp_path):
    state = open_state(tmp_path / "state")
    earlier = b"ctritonstack_local.places\nPlace\n."
    state.database.write(
        [StoredRow("moto", "s3/1/2", pickling.dumps("kept")), StoredRow("receipts", "k", earlier)]
    )
    state.database.close()
    state = open_state(tmp_path / "state")
    assert state.found == ()
    assert "another version (it has a tritonstack_local.places.Place)" in state.notices[0]
    assert "`tritonstack down --forget` removes it" in state.notices[0]
    assert (tmp_path / "state.set-aside-1" / "cloud.db").exists()
    state.database.close()


def test_the_previous_format_is_set_aside(tmp_path):
    state = open_state(tmp_path / "state")
    state.database.close()
    connection = sqlite3.connect(tmp_path / "state" / "cloud.db")
    earlier = stamp().replace("format 5", "format 4")
    connection.execute("UPDATE stamp SET text = ?", (earlier,))
    connection.commit()
    connection.close()
    state = open_state(tmp_path / "state")
    assert earlier != stamp()
    assert f"written by another version ({earlier})" in state.notices[0]
    assert state.found == ()
    state.database.close()


def test_an_unreadable_row_affects_its_own_service_only(tmp_path):
    state = open_state(tmp_path / "state")
    odd = b"cno.such.module\nname\n."
    state.database.write(
        [StoredRow("moto", "odd/1/2", odd), StoredRow("receipts", "k", pickling.dumps("kept"))]
    )
    (state.folder / "objects" / "a-body-of-the-odd-one").write_bytes(b"")
    state.database.close()
    state = open_state(tmp_path / "state")
    assert state.found == (("receipts", "k", "kept"),)
    assert "moto odd/1/2 was not restored" in state.notices[0]
    assert (state.folder / "objects" / "a-body-of-the-odd-one").exists()


def test_a_folder_writable_by_others_is_not_read(tmp_path):
    file = written(tmp_path / "state")
    for path, mode in ((file.parent, 0o770), (file, 0o606)):
        before = path.stat().st_mode
        path.chmod(mode)
        with pytest.raises(ForeignStateError, match="other users can write to it"):
            open_state(tmp_path / "state")
        path.chmod(before)
    moved = tmp_path / "elsewhere"
    file.parent.rename(moved)
    (tmp_path / "state").symlink_to(moved)
    with pytest.raises(ForeignStateError, match="symbolic link"):
        open_state(tmp_path / "state")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_not_read(tmp_path):
    file = written(tmp_path / "state")
    os.chown(file, 4711, 4711)
    with pytest.raises(ForeignStateError, match="owner is user 4711"):
        open_state(tmp_path / "state")


def test_only_the_owner_can_read_the_state(tmp_path):
    file = written(tmp_path / "state")
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_second_process_cannot_use_the_database(tmp_path):
    state = open_state(tmp_path / "state")
    with pytest.raises(StateInUseError):
        Database(tmp_path / "state" / "cloud.db", stamp="any")
    state.database.close()


ON_A_SMALL_DISK = """
import sys
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
kept = 0
while not is_rejected(s3.put_object, Bucket="full", Key=str(kept), Body=b"x" * 2**21):
    kept += 1
assert kept > 2
# Rejected objects are missing; stored ones can be read and deleted.
assert len(s3.list_objects_v2(Bucket="full")["Contents"]) == kept

# The disk is full: a deletion cannot be recorded either, and fails with the reason.
filler = disk / "filler"
with filler.open("wb", buffering=0) as file:
    try:
        while file.write(b"x" * 4096):
            pass
    except OSError:
        pass
assert is_rejected(s3.delete_object, Bucket="full", Key="0")
assert is_rejected(ssm.put_parameter, Name="/rejected", Value="v", Type="String")
assert ssm.get_parameter(Name="/before")["Parameter"]["Value"] == "v"

filler.unlink()
s3.delete_object(Bucket="full", Key="1")
for key in range(2, 6):
    s3.delete_object(Bucket="full", Key=str(key))
ssm.put_parameter(Name="/after", Value="v", Type="String")
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
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.stdout.endswith("done\n"), finished.stderr


def test_a_large_body_on_a_full_disk_is_drained_and_leaves_no_file(tmp_path):
    bodies, stream = BodyStore(tmp_path / "objects"), io.BytesIO(bytes(8 << 20))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, limits[1]))
    try:
        with pytest.raises(NotKeptError, match="File too large"):
            bodies.receive(stream)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert stream.tell() == 8 << 20
    assert list((tmp_path / "objects").iterdir()) == []
