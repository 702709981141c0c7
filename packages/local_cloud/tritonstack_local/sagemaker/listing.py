"""The List operations: the same filters, orders and pages for every kind of record."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tritonstack_local.sagemaker.records import EndpointRecord, StoredRecord
from tritonstack_local.service.faults import validation_exception

PAGE_SIZE = 10  # SageMaker's when MaxResults is not given
_TOKEN = re.compile(r"[0-9]{1,9}")

Record = TypeVar("Record", StoredRecord, EndpointRecord)
Wanted = Callable[[Any, Any], bool]

# Filter -> whether a record passes it.
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
    """Give the records that a List request asks for, and the token of the next page if there is one."""
    passing = [
        record
        for record in records
        if all(wanted(record, request[name]) for name, wanted in _FILTERS.items() if name in request)
    ]
    passing.sort(
        key=_ORDERS[request.get("SortBy", "CreationTime")],
        reverse=request.get("SortOrder", "Descending") == "Descending",
    )
    start = _start(request.get("NextToken"))
    end = start + request.get("MaxResults", PAGE_SIZE)
    return passing[start:end], str(end) if end < len(passing) else None


def _start(token: str | None) -> int:
    """A token is the place in the list where the next page begins."""
    if token is None:
        return 0
    if _TOKEN.fullmatch(token) is None:
        raise validation_exception(f"Invalid NextToken '{token}'.")
    return int(token)
