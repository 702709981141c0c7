"""The state writer: batched writes, answers after the write, and failed writes."""

import threading

import pytest

from tritonstack_local.state.errors import NotKeptError
from tritonstack_local.state.folder import open_state
from tritonstack_local.state.pickling import dumps
from tritonstack_local.state.writer import StateWriter


class Notes:
    """A source of state that records calls."""

    def __init__(self):
        self.held = {}

    def dump(self, key):
        return dumps(self.held[key]) if key in self.held else None

    def load(self, key, value):
        self.held[key] = value


class Kept:
    def __init__(self, folder):
        self.state = open_state(folder)
        self.writer = StateWriter(self.state)
        self.notes = Notes()
        self.on_change = self.writer.track("notes", self.notes)
        self.writes = []
        self.full = threading.Event()
        self.free = threading.Event()
        self.free.set()
        write = self.state.database.write

        def counted(rows):
            self.free.wait()
            rows = list(rows)
            self.writes.append([row.key for row in rows])
            if self.full.is_set():
                raise NotKeptError(folder, "No space left on device")
            write(rows)

        self.state.database.write = counted
        self.writer.load()
        self.writer.start()

    def put(self, key, value, **how):
        self.notes.held[key] = value
        self.on_change(key, **how)


@pytest.fixture
def kept(tmp_path):
    made = Kept(tmp_path / "state")
    yield made
    made.full.clear()
    made.writer.close()


def test_settled_changes_are_on_disk(tmp_path, kept):
    kept.put("a", 1)
    kept.put("b", 2)
    kept.writer.settle()
    del kept.notes.held["a"]
    kept.on_change("a")
    kept.writer.settle()
    kept.writer.close()
    assert Kept(tmp_path / "state").notes.held == {"b": 2}


def test_changes_reported_together_are_written_together(kept):
    with kept.writer.together():
        kept.put("a", 1)
        kept.writer.settle()
        kept.put("b", 2)
    kept.writer.settle()
    assert kept.writes == [["a", "b"]]


def test_slow_rows_are_written_on_close(tmp_path, kept):
    kept.put("log", "line", slow=True)
    kept.writer.close()
    assert Kept(tmp_path / "state").notes.held == {"log": "line"}


def test_a_failed_write_is_reported_and_retried(tmp_path, kept):
    kept.full.set()
    kept.put("a", 1)
    with pytest.raises(NotKeptError, match="No space left on device"):
        kept.writer.settle()
    kept.full.clear()
    kept.put("b", 2)
    kept.writer.settle()
    kept.writer.close()
    assert Kept(tmp_path / "state").notes.held == {"a": 1, "b": 2}


def test_an_unpicklable_row_does_not_block_the_others(tmp_path, kept, caplog):
    kept.put("odd", (number for number in ()))
    kept.put("a", 1)
    kept.writer.settle()
    kept.writer.close()
    assert "notes odd cannot be saved" in caplog.text
    assert Kept(tmp_path / "state").notes.held == {"a": 1}


def test_bodies_are_kept_while_an_older_row_may_reference_them(kept, monkeypatch):
    unused, removed = [["body"]], []
    monkeypatch.setattr(kept.state.bodies, "remove", removed.extend)
    monkeypatch.setattr(kept.state.bodies, "unused", lambda: unused.pop() if unused else [])
    kept.put("odd", (number for number in ()))
    kept.writer.settle()
    assert removed == []
    kept.put("other", 1)
    kept.writer.settle()
    assert removed == []
    kept.put("odd", 2)
    kept.writer.settle()
    assert removed == ["body"]


def test_after_close_writes_fail(kept):
    kept.writer.close()
    kept.put("late", 1)
    with pytest.raises(NotKeptError, match="is stopping"):
        kept.writer.settle()
