"""Snapshots: written at rest and replaced atomically; damaged and foreign ones are not read."""

import io
import os
import resource
import threading
import time
from pathlib import Path

import pytest

from packages.local_cloud.tests.state.restartable_cloud import IN_EUROPE
from tritonstack_local.cloud_folder import forget
from tritonstack_local.state import pickling, writer
from tritonstack_local.state import writer as snapshot
from tritonstack_local.state.bodies import BodyStore
from tritonstack_local.state.folder import ForeignStateError, NotKeptError
from tritonstack_local.state.writer import StateKey, StateWriter, open_state


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


def put(folder: Path, **notes: object) -> Path:
    """Write a snapshot; return its file."""
    open_state(folder).write({StateKey("notes", key): pickling.dumps(note) for key, note in notes.items()})
    return folder / "snapshot"


def on_disk(folder: Path) -> dict[str, object]:
    return {piece.key: value for piece, value in snapshot._read(folder).items()}


def test_a_snapshot_is_read_back_and_only_its_owner_can_read_it(folder):
    file = put(folder, a="a" * 1000, b=["b"])
    (folder / "snapshot.new").write_bytes(file.read_bytes()[:100])  # as a kill may leave it
    (folder / "objects" / "half-draft").write_bytes(b"half")
    state = open_state(folder)
    assert (list(state.values.values()), state.notices) == (["a" * 1000, ["b"]], ())
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list((folder / "objects").iterdir()) == []


@pytest.mark.parametrize(
    ("remains", "reason"),
    [
        (None, "snapshot is missing"),
        (lambda content: content[:-9], "snapshot is unreadable"),
        (lambda content: b"tritonstack 0.0\n" + content.partition(b"\n")[2], "tritonstack 0.0"),
        (lambda content: b"", "another version ()"),
        (lambda content: content.replace(b"StateKey", b"StateBoy"), "StateBoy"),
    ],
)
def test_state_that_cannot_be_read_is_set_aside(folder, remains, reason):
    file = put(folder, only=1)
    (folder / "objects" / "body").write_bytes(b"content")
    file.unlink() if remains is None else file.write_bytes(remains(file.read_bytes()))
    state, aside = open_state(folder), folder.with_name("state.set-aside-1")
    assert state.values == {}
    assert reason in state.notices[0]
    assert str(aside) in state.notices[0]
    assert (aside / "objects" / "body").exists()
    assert open_state(folder).notices == ()
    assert forget(folder.parent)
    assert list(folder.parent.iterdir()) == []
    assert not forget(folder.parent)


@pytest.mark.parametrize("name", ["", "snapshot", "objects", "logs"])
def test_what_other_users_can_write_is_not_read(folder, name):
    put(folder, a=1)
    (folder / name).chmod(0o722)
    with pytest.raises(ForeignStateError):
        open_state(folder)


def test_a_symbolic_link_is_not_followed(folder):
    put(folder, a=1)
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))
    with pytest.raises(ForeignStateError):
        open_state(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_not_read(folder):
    os.chown(put(folder, a=1), 4711, 4711)
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
        self.writer.load()
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


def eventually(folder: Path, expected: dict[str, object]) -> None:
    deadline = time.monotonic() + 10
    while not (folder / "snapshot").exists() or on_disk(folder) != expected:
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
