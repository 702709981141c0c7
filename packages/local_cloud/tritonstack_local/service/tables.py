"""Tables of frozen records; a change replaces the record.

A service lists its tables by name (`Tables`); the state writer (state/writer.py) persists them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from tritonstack_local.scope import Scope
from tritonstack_local.state.pickling import dumps
from tritonstack_local.state.writer import OnChange, not_persisted

Tables = Mapping[str, "Table[Any] | Tags"]
"""The tables of a service, by name."""


class NamedRecord(Protocol):
    """A record; its name is unique within a scope."""

    @property
    def name(self) -> str:
        """The name."""


Record = TypeVar("Record", bound=NamedRecord)


class Table(Generic[Record]):
    """Records of one kind by scope and name. Every method is atomic."""

    def __init__(self) -> None:
        self._records: dict[tuple[Scope, str], Record] = {}
        self._lock = threading.Lock()
        self.on_change: OnChange = not_persisted

    def add(self, scope: Scope, record: Record) -> bool:
        """Add a record unless its name exists; return whether it was added."""
        with self._lock:
            key = (scope, record.name)
            added = self._records.setdefault(key, record) is record
        self.on_change()
        return added

    def get(self, scope: Scope, name: str) -> Record | None:
        """Find a record."""
        return self._records.get((scope, name))

    def change(self, scope: Scope, name: str, step: Callable[[Record], Record]) -> Record | None:
        """Replace a record by the result of `step`; if it raises, nothing changes."""
        with self._lock:
            record = self._records.get((scope, name))
            if record is None:
                return None
            changed = step(record)
            self._records[scope, name] = changed
        self.on_change()
        return changed

    def remove(self, scope: Scope, name: str) -> Record | None:
        """Remove a record and return it."""
        with self._lock:
            removed = self._records.pop((scope, name), None)
        self.on_change()
        return removed

    def within(self, scope: Scope) -> list[Record]:
        """List the records of one scope."""
        return [record for where, record in self.everywhere() if where == scope]

    def everywhere(self) -> list[tuple[Scope, Record]]:
        """List all records with their scopes."""
        with self._lock:
            return [(scope, record) for (scope, _), record in self._records.items()]

    def piece_keys(self) -> list[str]:
        """List the records for the state writer."""
        return [f"{scope.account}/{scope.region}/{name}" for scope, name in list(self._records)]

    def dump(self, key: str) -> bytes | None:
        """Pickle a record for the state writer."""
        account, region, name = key.split("/", 2)
        record = self._records.get((Scope(account, region), name))
        return None if record is None else dumps(record)

    def load(self, key: str, value: Record) -> None:
        """Restore a record from the saved state."""
        account, region, name = key.split("/", 2)
        self._records[Scope(account, region), name] = value


class Tags:
    """Tags by ARN, in the order they were added."""

    def __init__(self) -> None:
        self._tags: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()
        self.on_change: OnChange = not_persisted

    def put(self, arn: str, tags: list[Mapping[str, str]]) -> None:
        """Add tags or replace those of the same key."""
        with self._lock:
            self._tags.setdefault(arn, {}).update({tag["Key"]: tag["Value"] for tag in tags})
        self.on_change()

    def drop(self, arn: str, keys: list[str]) -> None:
        """Remove the tags of these keys."""
        with self._lock:
            for key in keys:
                self._tags.get(arn, {}).pop(key, None)
        self.on_change()

    def forget(self, arn: str) -> None:
        """Remove all tags of a deleted resource."""
        with self._lock:
            self._tags.pop(arn, None)
        self.on_change()

    def of(self, arn: str) -> list[dict[str, str]]:
        """List a resource's tags."""
        with self._lock:
            return [{"Key": key, "Value": value} for key, value in self._tags.get(arn, {}).items()]

    def everywhere(self) -> dict[str, dict[str, str]]:
        """List every resource that has tags."""
        with self._lock:
            return {arn: dict(tags) for arn, tags in self._tags.items() if tags}

    def piece_keys(self) -> list[str]:
        """List the resources that have tags."""
        return list(self._tags)

    def dump(self, key: str) -> bytes | None:
        """Pickle the tags of a resource for the state writer."""
        with self._lock:
            tags = self._tags.get(key)
            return None if tags is None else dumps(tags)

    def load(self, key: str, value: dict[str, str]) -> None:
        """Restore the tags of a resource from the saved state."""
        self._tags[key] = value
