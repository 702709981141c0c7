"""Create, describe, list, and delete models, endpoint configurations, and tags."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tritonstack_local.sagemaker import rules
from tritonstack_local.sagemaker.records import EndpointRecord, SageMakerTables, StoredRecord, arn_of, now
from tritonstack_local.sagemaker.rules import already_exists, not_found
from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import validation_exception
from tritonstack_local.service.tables import Table, Tags
from tritonstack_local.service.wire import Fields

PAGE_SIZE = 10  # SageMaker's default of MaxResults
_TOKEN = re.compile(r"[0-9]{1,9}")

Record = TypeVar("Record", StoredRecord, EndpointRecord)

# Filter -> whether a record matches.
_FILTERS: dict[str, Callable[[Any, Any], bool]] = {
    "NameContains": lambda record, text: text.lower() in record.name.lower(),
    "CreationTimeBefore": lambda record, seconds: record.created.timestamp() < seconds,
    "CreationTimeAfter": lambda record, seconds: record.created.timestamp() > seconds,
    "LastModifiedTimeBefore": lambda record, seconds: record.modified.timestamp() < seconds,
    "LastModifiedTimeAfter": lambda record, seconds: record.modified.timestamp() > seconds,
    "StatusEquals": lambda record, status: record.status == status,
}

_ORDERS: dict[str, Callable[[Any], Any]] = {
    "Name": lambda record: record.name,
    "CreationTime": lambda record: (record.created, record.name),
    "Status": lambda record: (record.status, record.name),
}


def page(records: list[Record], request: Fields) -> tuple[list[Record], str | None]:
    """Return the records of a List request, and the token of the next page if any: its index."""
    passing = [
        record
        for record in records
        if all(matches(record, request[name]) for name, matches in _FILTERS.items() if name in request)
    ]
    passing.sort(
        key=_ORDERS[request.get("SortBy", "CreationTime")],
        reverse=request.get("SortOrder", "Descending") == "Descending",
    )
    token = request.get("NextToken", "0")
    if _TOKEN.fullmatch(token) is None:
        raise validation_exception(f"Invalid NextToken '{token}'.")
    end = int(token) + request.get("MaxResults", PAGE_SIZE)
    return passing[int(token) : end], str(end) if end < len(passing) else None


@dataclass(frozen=True)
class Resources:
    """The actions on models, or those on endpoint configurations: they are what their request said."""

    kind: str
    """Model or EndpointConfig, as in the names of actions and fields."""
    noun: str
    """The kind in messages."""
    table: Table[StoredRecord]
    tags: Tags
    check: Callable[[Scope, Fields], None]
    """Raises SageMaker's error for a create request."""
    shown: Callable[[Fields], Fields]
    """Adds SageMaker's defaults."""

    def arn(self, scope: Scope, name: str) -> str:
        """Return the ARN of a resource, which may not exist."""
        return arn_of(scope, "model" if self.kind == "Model" else "endpoint-config", name)

    def get(self, scope: Scope, name: str) -> StoredRecord:
        """Return a record, or raise AWS's error for a missing one."""
        record = self.table.get(scope, name)
        if record is None:
            raise not_found(self.noun, self.arn(scope, name))
        return record

    def create(self, scope: Scope, request: Fields) -> Fields:
        """Create a resource."""
        self.check(scope, request)
        name = request[f"{self.kind}Name"]
        fields = {field: value for field, value in request.items() if field != "Tags"}
        record = StoredRecord(name=name, arn=self.arn(scope, name), created=now(), fields=fields)
        if not self.table.add(scope, record):
            raise already_exists(self.noun, record.arn)
        self.tags.put(record.arn, request.get("Tags", []))
        return {f"{self.kind}Arn": record.arn}

    def describe(self, scope: Scope, request: Fields) -> Fields:
        """Describe a resource."""
        record = self.get(scope, request[f"{self.kind}Name"])
        return {**self.shown(record.fields), f"{self.kind}Arn": record.arn, "CreationTime": record.created}

    def list(self, scope: Scope, request: Fields) -> Fields:
        """List resources."""
        records, token = page(self.table.within(scope), request)
        summaries = [
            {f"{self.kind}Name": item.name, f"{self.kind}Arn": item.arn, "CreationTime": item.created}
            for item in records
        ]
        return {f"{self.kind}s": summaries, "NextToken": token}

    def delete(self, scope: Scope, request: Fields) -> Fields:
        """Delete a resource; endpoints made of it are not affected."""
        record = self.get(scope, request[f"{self.kind}Name"])
        self.table.remove(scope, record.name)
        self.tags.forget(record.arn)
        return {}


def models_of(store: SageMakerTables) -> Resources:
    """Return the actions on models; their archives are downloaded by endpoints only."""

    def shown(fields: Fields) -> Fields:
        container = fields.get("PrimaryContainer")
        primary = {} if container is None else {"PrimaryContainer": {"Mode": "SingleModel", **container}}
        return {"EnableNetworkIsolation": False, **fields, **primary}

    return Resources(
        "Model", "model", store.models, store.tags, lambda _, request: rules.check_model(request), shown
    )


def configs_of(store: SageMakerTables, models: Resources) -> Resources:
    """Return the actions on endpoint configurations, whose models must exist."""

    def check(scope: Scope, request: Fields) -> None:
        rules.check_config(request)
        for variant in request["ProductionVariants"]:
            models.get(scope, variant["ModelName"])

    def shown(fields: Fields) -> Fields:
        variants = [{"InitialVariantWeight": 1.0, **variant} for variant in fields["ProductionVariants"]]
        return {**fields, "ProductionVariants": variants}

    return Resources("EndpointConfig", "endpoint configuration", store.configs, store.tags, check, shown)


class TagActions:
    """The tag actions, for every SageMaker resource."""

    def __init__(self, *, store: SageMakerTables) -> None:
        self._store = store

    def add(self, scope: Scope, request: Fields) -> Fields:
        """Add or replace tags."""
        arn = self._existing(scope, request)
        self._store.tags.put(arn, request["Tags"])
        return {"Tags": self._store.tags.of(arn)}

    def list(self, scope: Scope, request: Fields) -> Fields:
        """List all tags; AWS allows 50 per resource, which fit on one page."""
        return {"Tags": self._store.tags.of(self._existing(scope, request))}

    def delete(self, scope: Scope, request: Fields) -> Fields:
        """Remove tags."""
        self._store.tags.drop(self._existing(scope, request), request["TagKeys"])
        return {}

    def _existing(self, scope: Scope, request: Fields) -> str:
        arn, store = request["ResourceArn"], self._store
        tables: tuple[Table[Any], ...] = (store.models, store.configs, store.endpoints)
        if not any(record.arn == arn for table in tables for record in table.within(scope)):
            raise not_found("resource", arn)
        return str(arn)
