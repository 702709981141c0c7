"""What the services of this cloud that are its own remember: frozen records, replaced as a whole.

A service lists its tables by name (`Tables`); the cloud keeps what is in them (state/keeper.py), and fills
them again at its next start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from tritonstack_local.identity.scope import Place
from tritonstack_local.state.pickling import dumps
from tritonstack_local.state.writer import Tell, kept_nowhere

Tables = Mapping[str, "Table[Any] | Tags"]
"""The tables of a service, by name."""


class Named(Protocol):
    """A record; its name is unique within a place."""

    @property
    def name(self) -> str:
        """The name."""


Record = TypeVar("Record", bound=Named)


class Table(Generic[Record]):
    """Records of one kind by place and name. Every method is atomic."""

    def __init__(self) -> None:
        self._records: dict[tuple[Place, str], Record] = {}
        self._lock = threading.Lock()
        self.tell: Tell = kept_nowhere

    def add(self, place: Place, record: Record) -> bool:
        """Add a record unless there is one of its name; say whether it was added."""
        with self._lock:
            key = (place, record.name)
            added = self._records.setdefault(key, record) is record
        self._tell(place, record.name)
        return added

    def get(self, place: Place, name: str) -> Record | None:
        """Find a record."""
        return self._records.get((place, name))

    def change(self, place: Place, name: str, step: Callable[[Record], Record]) -> Record | None:
        """Replace a record by what `step` makes of it; a step that raises changes nothing."""
        with self._lock:
            record = self._records.get((place, name))
            if record is None:
                return None
            changed = step(record)
            self._records[place, name] = changed
        self._tell(place, name)
        return changed

    def remove(self, place: Place, name: str) -> Record | None:
        """Remove a record and return it."""
        with self._lock:
            removed = self._records.pop((place, name), None)
        self._tell(place, name)
        return removed

    def within(self, place: Place) -> list[Record]:
        """List the records of one place."""
        return [record for where, record in self.everywhere() if where == place]

    def everywhere(self) -> list[tuple[Place, Record]]:
        """List all records with their places."""
        with self._lock:
            return [(place, record) for (place, _), record in self._records.items()]

    def dump(self, key: str) -> bytes | None:
        """Pickle a record for the keeper."""
        account, region, name = key.split("/", 2)
        record = self._records.get((Place(account, region), name))
        return None if record is None else dumps(record)

    def load(self, key: str, value: Record) -> None:
        """Take a record back from the keeper."""
        account, region, name = key.split("/", 2)
        self._records[Place(account, region), name] = value

    def _tell(self, place: Place, name: str) -> None:
        self.tell(f"{place.account}/{place.region}/{name}")


class Tags:
    """Tags by ARN, in the order in which they were given."""

    def __init__(self) -> None:
        self._tags: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()
        self.tell: Tell = kept_nowhere

    def put(self, arn: str, tags: list[Mapping[str, str]]) -> None:
        """Add tags or replace those of the same key."""
        with self._lock:
            self._tags.setdefault(arn, {}).update({tag["Key"]: tag["Value"] for tag in tags})
        self.tell(arn)

    def drop(self, arn: str, keys: list[str]) -> None:
        """Remove the tags of these keys."""
        with self._lock:
            for key in keys:
                self._tags.get(arn, {}).pop(key, None)
        self.tell(arn)

    def forget(self, arn: str) -> None:
        """Remove every tag of a resource that has gone."""
        with self._lock:
            self._tags.pop(arn, None)
        self.tell(arn)

    def of(self, arn: str) -> list[dict[str, str]]:
        """List a resource's tags."""
        with self._lock:
            return [{"Key": key, "Value": value} for key, value in self._tags.get(arn, {}).items()]

    def everywhere(self) -> dict[str, dict[str, str]]:
        """List every resource that has tags."""
        with self._lock:
            return {arn: dict(tags) for arn, tags in self._tags.items() if tags}

    def dump(self, key: str) -> bytes | None:
        """Pickle the tags of a resource for the keeper."""
        with self._lock:
            tags = self._tags.get(key)
            return None if tags is None else dumps(tags)

    def load(self, key: str, value: dict[str, str]) -> None:
        """Take the tags of a resource back from the keeper."""
        self._tags[key] = value
