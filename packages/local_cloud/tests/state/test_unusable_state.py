"""State that is damaged, foreign, of another version, or on a full disk."""

import io
import os
import resource
import sqlite3
from dataclasses import dataclass

import pytest

from tritonstack_local.cloud_folder import forget
from tritonstack_local.state import database, pickling
from tritonstack_local.state.bodies import BodyStore
from tritonstack_local.state.database import Database, StoredRow, own_folder
from tritonstack_local.state.errors import ForeignStateError, NotKeptError, StateInUseError
from tritonstack_local.state.folder import open_state


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
