"""Create, describe, list, and delete models, endpoint configurations, and tags."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from tritonstack_local.sagemaker import unsupported
from tritonstack_local.sagemaker.errors import already_exists, not_found
from tritonstack_local.sagemaker.records import EndpointRecord, SageMakerTables, StoredRecord, arn_of, now
from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import validation_exception
from tritonstack_local.service.tables import Table

PAGE_SIZE = 10  # SageMaker's default of MaxResults
_TOKEN = re.compile(r"[0-9]{1,9}")

Record = TypeVar("Record", StoredRecord, EndpointRecord)
Wanted = Callable[[Any, Any], bool]

# Filter -> whether a record matches.
_FILTERS: dict[str, Wanted] = {
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


def page(records: list[Record], request: Mapping[str, Any]) -> tuple[list[Record], str | None]:
    """Return the records of a List request, and the token of the next page if any."""
    passing = [
        record
        for record in records
        if all(matches(record, request[name]) for name, matches in _FILTERS.items() if name in request)
    ]
    passing.sort(
        key=_ORDERS[request.get("SortBy", "CreationTime")],
        reverse=request.get("SortOrder", "Descending") == "Descending",
    )
    start = _start(request.get("NextToken"))
    end = start + request.get("MaxResults", PAGE_SIZE)
    return passing[start:end], str(end) if end < len(passing) else None


def _start(token: str | None) -> int:
    """A token is the index of the next page."""
    if token is None:
        return 0
    if _TOKEN.fullmatch(token) is None:
        raise validation_exception(f"Invalid NextToken '{token}'.")
    return int(token)


Fields = Mapping[str, Any]
MODEL, CONFIG, ENDPOINT = "model", "endpoint configuration", "endpoint"


def stored(table: Table[StoredRecord], scope: Scope, *, kind: str, name: str) -> StoredRecord:
    """Return a model or configuration, or raise AWS's error for a missing one."""
    record = table.get(scope, name)
    if record is None:
        raise not_found(kind, arn_of(scope, kind.replace("endpoint configuration", "endpoint-config"), name))
    return record


class Models:
    """The actions on models."""

    def __init__(self, *, store: SageMakerTables) -> None:
        self._store = store

    def create(self, scope: Scope, request: Fields) -> Fields:
        """Create a model; its archive is downloaded by endpoints only."""
        unsupported.check_model(request)
        name = request["ModelName"]
        record = StoredRecord(
            name=name, arn=arn_of(scope, "model", name), created=now(), fields=_untagged(request)
        )
        if not self._store.models.add(scope, record):
            raise already_exists(MODEL, record.arn)
        self._store.tags.put(record.arn, request.get("Tags", []))
        return {"ModelArn": record.arn}

    def describe(self, scope: Scope, request: Fields) -> Fields:
        """Describe a model."""
        record = stored(self._store.models, scope, kind=MODEL, name=request["ModelName"])
        shown = {"EnableNetworkIsolation": False, **record.fields}
        if "PrimaryContainer" in shown:
            shown["PrimaryContainer"] = {"Mode": "SingleModel", **shown["PrimaryContainer"]}
        return {**shown, "ModelArn": record.arn, "CreationTime": record.created}

    def list(self, scope: Scope, request: Fields) -> Fields:
        """List models."""
        records, token = page(self._store.models.within(scope), request)
        summaries = [
            {"ModelName": record.name, "ModelArn": record.arn, "CreationTime": record.created}
            for record in records
        ]
        return {"Models": summaries, "NextToken": token}

    def delete(self, scope: Scope, request: Fields) -> Fields:
        """Delete a model; endpoints that serve it are not affected."""
        record = stored(self._store.models, scope, kind=MODEL, name=request["ModelName"])
        self._store.models.remove(scope, record.name)
        self._store.tags.forget(record.arn)
        return {}


class EndpointConfigs:
    """The actions on endpoint configurations."""

    def __init__(self, *, store: SageMakerTables) -> None:
        self._store = store

    def create(self, scope: Scope, request: Fields) -> Fields:
        """Create a configuration; its models must exist."""
        unsupported.check_config(request)
        name = request["EndpointConfigName"]
        for variant in request["ProductionVariants"]:
            stored(self._store.models, scope, kind=MODEL, name=variant["ModelName"])
        record = StoredRecord(
            name=name, arn=arn_of(scope, "endpoint-config", name), created=now(), fields=_untagged(request)
        )
        if not self._store.configs.add(scope, record):
            raise already_exists(CONFIG, record.arn)
        self._store.tags.put(record.arn, request.get("Tags", []))
        return {"EndpointConfigArn": record.arn}

    def describe(self, scope: Scope, request: Fields) -> Fields:
        """Describe a configuration."""
        record = stored(self._store.configs, scope, kind=CONFIG, name=request["EndpointConfigName"])
        variants = [{"InitialVariantWeight": 1.0, **item} for item in record.fields["ProductionVariants"]]
        return {
            **record.fields,
            "ProductionVariants": variants,
            "EndpointConfigArn": record.arn,
            "CreationTime": record.created,
        }

    def list(self, scope: Scope, request: Fields) -> Fields:
        """List configurations."""
        records, token = page(self._store.configs.within(scope), request)
        summaries = [
            {
                "EndpointConfigName": record.name,
                "EndpointConfigArn": record.arn,
                "CreationTime": record.created,
            }
            for record in records
        ]
        return {"EndpointConfigs": summaries, "NextToken": token}

    def delete(self, scope: Scope, request: Fields) -> Fields:
        """Delete a configuration."""
        record = stored(self._store.configs, scope, kind=CONFIG, name=request["EndpointConfigName"])
        self._store.configs.remove(scope, record.name)
        self._store.tags.forget(record.arn)
        return {}


class TagActions:
    """The tag actions, for every SageMaker resource."""

    def __init__(self, *, store: SageMakerTables) -> None:
        self._store = store

    def add(self, scope: Scope, request: Fields) -> Fields:
        """Add or replace tags."""
        arn = self._known(scope, request["ResourceArn"])
        self._store.tags.put(arn, request["Tags"])
        return {"Tags": self._store.tags.of(arn)}

    def list(self, scope: Scope, request: Fields) -> Fields:
        """List all tags; AWS allows 50 per resource, which fit on one page."""
        return {"Tags": self._store.tags.of(self._known(scope, request["ResourceArn"]))}

    def delete(self, scope: Scope, request: Fields) -> Fields:
        """Remove tags."""
        self._store.tags.drop(self._known(scope, request["ResourceArn"]), request["TagKeys"])
        return {}

    def _known(self, scope: Scope, arn: str) -> str:
        if arn not in self._arns(scope):
            raise not_found("resource", arn)
        return arn

    def _arns(self, scope: Scope) -> Iterator[str]:
        store = self._store
        for table in (store.models, store.configs, store.endpoints):
            yield from (record.arn for record in table.within(scope))


def _untagged(request: Fields) -> Fields:
    return {name: value for name, value in request.items() if name != "Tags"}
