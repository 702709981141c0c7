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
Item = TypeVar("Item")


class _Persisted(Generic[Item]):
    """Items by key, for the state writer."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._lock = threading.Lock()
        self.on_change: OnChange = not_persisted

    def piece_keys(self) -> list[str]:
        """List the keys for the state writer."""
        return list(self._items)

    def dump(self, key: str) -> bytes | None:
        """Pickle an item for the state writer."""
        with self._lock:
            return dumps(self._items[key]) if key in self._items else None

    def load(self, key: str, value: Item) -> None:
        """Restore an item from the saved state."""
        self._items[key] = value


class NamedRecord(Protocol):
    """A record; its name is unique within a scope."""

    @property
    def name(self) -> str:
        """The name."""


Record = TypeVar("Record", bound=NamedRecord)


class Table(_Persisted[tuple[Scope, Record]]):
    """Records of one kind by scope and name. Every method is atomic."""

    def add(self, scope: Scope, record: Record) -> bool:
        """Add a record unless its name exists; return whether it was added."""
        with self._lock:
            added = self._items.setdefault(_key(scope, record.name), (scope, record))[1] is record
        self.on_change()
        return added

    def get(self, scope: Scope, name: str) -> Record | None:
        """Find a record."""
        item = self._items.get(_key(scope, name))
        return item and item[1]

    def change(self, scope: Scope, name: str, step: Callable[[Record], Record]) -> Record | None:
        """Replace a record by the result of `step`; if it raises, nothing changes."""
        with self._lock:
            record = self.get(scope, name)
            if record is None:
                return None
            changed = step(record)
            self._items[_key(scope, name)] = scope, changed
        self.on_change()
        return changed

    def remove(self, scope: Scope, name: str) -> Record | None:
        """Remove a record and return it."""
        with self._lock:
            item = self._items.pop(_key(scope, name), None)
        self.on_change()
        return item and item[1]

    def within(self, scope: Scope) -> list[Record]:
        """List the records of one scope."""
        return [record for where, record in self.everywhere() if where == scope]

    def everywhere(self) -> list[tuple[Scope, Record]]:
        """List all records with their scopes."""
        with self._lock:
            return list(self._items.values())


def inventory_of(service: str, tables: Mapping[str, Table[Any]]) -> list[dict[str, str]]:
    """List the records of all accounts and regions as resources; tables are given by the type of resource."""
    return [
        {
            "service": service,
            "type": kind,
            "id": record.name,
            "account": scope.account,
            "region": scope.region,
        }
        for kind, table in tables.items()
        for scope, record in table.everywhere()
    ]


def _key(scope: Scope, name: str) -> str:
    return f"{scope.account}/{scope.region}/{name}"


class Tags(_Persisted[dict[str, str]]):
    """Tags by ARN, in the order they were added."""

    def put(self, arn: str, tags: list[Mapping[str, str]]) -> None:
        """Add tags or replace those of the same key."""
        with self._lock:
            self._items.setdefault(arn, {}).update({tag["Key"]: tag["Value"] for tag in tags})
        self.on_change()

    def drop(self, arn: str, keys: list[str]) -> None:
        """Remove the tags of these keys."""
        with self._lock:
            for key in keys:
                self._items.get(arn, {}).pop(key, None)
        self.on_change()

    def forget(self, arn: str) -> None:
        """Remove all tags of a deleted resource."""
        with self._lock:
            self._items.pop(arn, None)
        self.on_change()

    def of(self, arn: str) -> list[dict[str, str]]:
        """List a resource's tags."""
        with self._lock:
            return [{"Key": key, "Value": value} for key, value in self._items.get(arn, {}).items()]

    def everywhere(self) -> dict[str, dict[str, str]]:
        """List every resource that has tags."""
        with self._lock:
            return {arn: dict(tags) for arn, tags in self._items.items() if tags}
