"""Snapshots: written at rest and replaced atomically; damaged and foreign ones are not read."""

import io
import os
import resource
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from packages.local_cloud.tests.state.restartable_cloud import IN_EUROPE
from tritonstack_local.cloud_folder import forget
from tritonstack_local.state import pickling, snapshot, writer
from tritonstack_local.state.bodies import BODIES, Body, BodyStore
from tritonstack_local.state.errors import ForeignStateError, NotKeptError
from tritonstack_local.state.snapshot import Snapshot, State, StateKey, open_state
from tritonstack_local.state.writer import StateWriter


def put(folder: Path, *values: object) -> Path:
    """Write a snapshot of numbered pieces; return its file."""
    pieces = {StateKey("notes", str(number)): pickling.dumps(value) for number, value in enumerate(values)}
    open_state(folder).write(Snapshot(pieces))
    return folder / "snapshot"


def values(state: State) -> list[object]:
    return list(state.values.values())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_a_snapshot_is_read_back_and_only_its_owner_can_read_it(folder):
    file = put(folder, "a" * 1000, ["b"])
    state = open_state(folder)
    assert (values(state), state.notices) == (["a" * 1000, ["b"]], ())
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "snapshot.new").write_bytes(file.read_bytes()[:100])  # as a kill may leave it
    assert values(open_state(folder)) == values(state)


def test_any_damaged_byte_brings_the_snapshot_before_back(folder):
    put(folder, "first")
    content = put(folder, "second").read_bytes()
    damages = [content[: len(content) // 2], b""]
    damages += (
        content[:offset] + bytes([content[offset] ^ 0xFF]) + content[offset + 1 :]
        for offset in range(0, len(content), 11)
    )
    for number, damaged in enumerate(damages):
        copy = folder.with_name(f"copy-{number}")
        shutil.copytree(folder, copy)
        (copy / "snapshot").write_bytes(damaged)
        state = open_state(copy)
        assert values(state) == ["first"]
        assert [str(copy / "snapshot.set-aside-1") in notice for notice in state.notices] == [True]
        # The good snapshot stays until there are two again.
        again = open_state(copy)
        assert (values(again), again.notices) == (["first"], ())
        put(copy, "third")
        assert values(open_state(copy)) == ["third"]
        (copy / "snapshot").write_bytes(damaged)
        assert values(open_state(copy)) == ["first"]


@pytest.mark.parametrize("remains", [b"x", None])
def test_without_a_whole_snapshot_the_state_is_set_aside(folder, remains):
    file = put(folder, "only")
    (folder / "objects" / "body").write_bytes(b"content")
    file.unlink() if remains is None else file.write_bytes(remains)
    state = open_state(folder)
    assert values(state) == []
    assert str(folder.with_name("state.set-aside-1")) in state.notices[0]
    assert (folder.with_name("state.set-aside-1") / "objects" / "body").exists()
    assert open_state(folder).notices == ()
    assert forget(folder.parent)
    assert list(folder.parent.iterdir()) == []
    assert not forget(folder.parent)


def write_earlier_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "stamp", lambda: "tritonstack 0.0")
    put(folder, "old")
    monkeypatch.undo()


def write_earlier_class(folder: Path, _: pytest.MonkeyPatch) -> None:
    pieces = {StateKey("notes", "k"): b"ctritonstack_local.places\nPlace\n."}
    open_state(folder).write(Snapshot(pieces))


def write_earlier_fields(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Record:
        name: str

    Record.__module__, Record.__qualname__ = snapshot.__name__, "Record"
    monkeypatch.setattr(snapshot, "Record", Record, raising=False)
    put(folder, Record("a"))
    monkeypatch.setitem(pickling._FIELDS, Record, ("name", "color"))


def write_earlier_database(folder: Path, _: pytest.MonkeyPatch) -> None:
    open_state(folder)
    (folder / "cloud.db").write_bytes(b"SQLite format 3")


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (write_earlier_version, "tritonstack 0.0"),
        (write_earlier_class, "tritonstack_local.places.Place"),
        (write_earlier_fields, "Record consisted of name"),
        (write_earlier_database, "database"),
    ],
)
def test_the_state_of_another_version_is_set_aside(folder, monkeypatch, write, reason):
    write(folder, monkeypatch)
    state = open_state(folder)
    assert values(state) == []
    assert reason in state.notices[0]
    assert folder.with_name("state.set-aside-1").is_dir()


def test_an_unreadable_piece_affects_only_itself(folder):
    pieces = {
        StateKey("moto", "odd"): b"cno.such.module\nname\n.",
        StateKey("notes", "k"): pickling.dumps("kept"),
    }
    open_state(folder).write(Snapshot(pieces))
    (folder / "objects" / "a-body-of-the-odd-one").write_bytes(b"")
    state = open_state(folder)
    assert values(state) == ["kept"]
    assert "moto odd" in state.notices[0]
    assert (folder / "objects" / "a-body-of-the-odd-one").exists()


@pytest.mark.parametrize("name", ["", "snapshot", "objects", "logs"])
def test_what_other_users_can_write_is_not_read(folder, name):
    put(folder, "a")
    (folder / name).chmod(0o722)
    with pytest.raises(ForeignStateError):
        open_state(folder)


def test_a_symbolic_link_is_not_followed(folder):
    put(folder, "a")
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))
    with pytest.raises(ForeignStateError):
        open_state(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_not_read(folder):
    os.chown(put(folder, "a"), 4711, 4711)
    with pytest.raises(ForeignStateError, match="4711"):
        open_state(folder)


class Notes(dict):
    """A store."""

    def piece_keys(self):
        return list(self)

    def dump(self, key):
        return pickling.dumps(self[key])

    def load(self, key, value):
        self[key] = value


class Saved:
    """A writer with one store, which writes quickly."""

    def __init__(self, folder: Path) -> None:
        self.state = open_state(folder)
        self.writer = StateWriter(self.state)
        self.notes = Notes()
        self.writer.track("notes", self.notes)
        self.notices = self.writer.load()
        self.writer.start()

    def put(self, key, value):
        self.notes[key] = value
        self.notes.on_change()


@pytest.fixture
def saved(folder, monkeypatch):
    monkeypatch.setattr(writer, "REST_S", 0.1)
    monkeypatch.setattr(writer, "LONGEST_S", 0.5)
    result = Saved(folder)
    yield result
    result.writer.close()


def on_disk(folder: Path) -> dict[str, object]:
    try:
        pieces = snapshot._read(folder / "snapshot").pieces
    except FileNotFoundError:
        return {}
    return {piece.key: pickling.loads(content) for piece, content in pieces.items()}


def eventually(folder: Path, expected: dict[str, object]) -> None:
    deadline = time.monotonic() + 10
    while on_disk(folder) != expected:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_snapshot_is_written_at_rest(folder, saved):
    saved.put("a", 1)
    saved.put("b", 2)
    eventually(folder, {"a": 1, "b": 2})
    before = (folder / "snapshot").stat().st_mtime_ns
    time.sleep(0.3)
    assert (folder / "snapshot").stat().st_mtime_ns == before, "nothing changed"
    del saved.notes["a"]
    saved.notes.on_change()
    eventually(folder, {"b": 2})


def test_a_change_while_a_snapshot_is_taken_is_in_the_next(folder, saved, monkeypatch):
    """Background work changes records at any time."""
    dump = Notes.dump

    def then_changed(notes, key):
        content = dump(notes, key)
        if notes[key] == "first":
            saved.put(key, "second")
        return content

    monkeypatch.setattr(Notes, "dump", then_changed)
    saved.put("a", "first")
    eventually(folder, {"a": "second"})


def test_a_snapshot_is_written_while_changes_go_on(folder, saved):
    ends = time.monotonic() + 10
    while not (folder / "snapshot").exists() and time.monotonic() < ends:
        saved.put("a", 1)
        time.sleep(0.02)
    assert on_disk(folder) == {"a": 1}


def test_the_last_snapshot_is_written_on_close(folder, monkeypatch):
    monkeypatch.setattr(writer, "REST_S", 3600)
    saved = Saved(folder)
    saved.put("a", 1)
    saved.writer.close()
    assert Saved(folder).notes == {"a": 1}


def test_a_snapshot_never_holds_half_of_a_change(folder, saved):
    def put_stack():
        with saved.writer.changing():
            saved.put("its stack", 1)

    with saved.writer.changing():
        saved.put("resource", 1)
        time.sleep(0.3)
        assert not (folder / "snapshot").exists()
        # A part of the change that another thread makes does not wait for the snapshot, which waits.
        other = threading.Thread(target=put_stack)
        other.start()
        other.join(5)
        assert not other.is_alive()
    eventually(folder, {"resource": 1, "its stack": 1})


def test_a_failed_write_is_retried_and_the_snapshot_before_stays(folder, saved, caplog):
    saved.put("a", 1)
    eventually(folder, {"a": 1})
    (folder / "snapshot.new").mkdir()
    saved.put("b", 2)
    while "cannot write its state" not in caplog.text:
        time.sleep(0.02)
    assert on_disk(folder) == {"a": 1}
    (folder / "snapshot.new").rmdir()
    eventually(folder, {"a": 1, "b": 2})


def test_what_cannot_be_pickled_does_not_block_the_rest(folder, saved, caplog):
    saved.put("odd", (number for number in ()))
    saved.put("a", 1)
    eventually(folder, {"a": 1})
    assert "notes odd" in caplog.text


def test_a_piece_that_does_not_fit_is_reported(folder, monkeypatch):
    put(folder, "kept", "odd")
    monkeypatch.setattr(Notes, "load", lambda _, key, value: {"kept": key}[value])
    assert ["notes 1" in notice for notice in Saved(folder).notices] == [True]


def test_bodies_outlive_both_snapshots_that_refer_to_them(folder, monkeypatch):
    monkeypatch.setattr(writer, "REST_S", 3600)
    saved = Saved(folder)
    body = BODIES.add(b"content")

    def names() -> list[str]:
        saved.writer._write()
        return sorted(BODIES.names())

    saved.put("object", Body(body))
    assert names() == [body]
    del saved.notes["object"]
    assert names() == [body], "the snapshot before refers to it"
    assert names() == []


def test_unreferenced_bodies_are_removed(cloud):
    client = cloud.client("s3")
    client.create_bucket(Bucket="bodies", CreateBucketConfiguration=IN_EUROPE)
    for number in range(3):
        client.put_object(Bucket="bodies", Key="k", Body=b"x" * number)
    objects = cloud.folder / "state" / "objects"
    (objects / "of-a-killed-upload").write_bytes(b"half")
    cloud.restart()
    assert [path.stat().st_size for path in objects.iterdir()] == [2]
    client = cloud.client("s3")
    client.copy_object(Bucket="bodies", Key="copy", CopySource="bodies/k")
    client.delete_object(Bucket="bodies", Key="k")
    cloud.restart()
    assert cloud.client("s3").get_object(Bucket="bodies", Key="copy")["Body"].read() == b"xx"
    cloud.client("s3").delete_object(Bucket="bodies", Key="copy")
    for _ in range(2):
        cloud.restart()
    assert list(objects.iterdir()) == []


def test_a_large_body_on_a_full_disk_is_drained_and_leaves_no_file(tmp_path):
    bodies, stream = BodyStore(), io.BytesIO(bytes(8 << 20))
    bodies.use(tmp_path / "objects")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, limits[1]))
    try:
        with pytest.raises(NotKeptError, match="File too large"):
            bodies.receive(stream)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert stream.tell() == 8 << 20
    assert list((tmp_path / "objects").iterdir()) == []
