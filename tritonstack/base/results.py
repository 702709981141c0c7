"""Results of commands: dataclasses whose public fields and properties are the keys of `--json`.

mypy checks the fields. Nothing validates them again: a command that has deployed must not fail on its report.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, PlainSerializer, TypeAdapter, computed_field
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

_T = TypeVar("_T")


class _Unserialized:
    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        return core_schema.any_schema()


class Shown:
    """Annotate a field of which JSON documents have what a function returns for it."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return PlainSerializer(self._function).__get_pydantic_core_schema__(Any, handler)


Internal = Annotated[_T, Field(exclude=True), _Unserialized()]
"""A field for Python callers only."""


def Key(name: str) -> Any:  # noqa: N802 - reads as the annotation of a field
    """Annotate a field that has another key in JSON documents."""
    return Field(serialization_alias=name)


class Rounded:
    """Annotate a number that JSON documents show with fewer digits."""

    def __init__(self, digits: int) -> None:
        self._digits = digits

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        number = handler(source)
        serializer = core_schema.plain_serializer_function_ser_schema(self._rounded, return_schema=number)
        return {**number, "serialization": serializer}

    def _rounded(self, number: float | None) -> float | None:
        return None if number is None else round(number, self._digits)


def figure(value: float) -> float | None:
    """Return a measurement with three decimals; None if nothing was measured."""
    return None if math.isnan(value) else round(value, 3)


Figure = Annotated[float, Shown(figure)]
"""A measurement that may be NaN."""

if TYPE_CHECKING:
    public = property
else:

    def public(getter: Callable[[Any], Any]) -> Any:
        """Make a property that is also a key of the JSON document."""
        return computed_field(property(getter))


class _ResultSchema(GenerateJsonSchema):
    """All keys are always there, and there are no others."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        return True

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        body = super().dataclass_schema(schema)
        if "properties" in body:
            body["additionalProperties"] = False
        return body


@functools.cache
def _adapter(result: Any) -> TypeAdapter[Any]:
    return TypeAdapter(result)


def document(result: Any) -> Any:
    """Return a result as JSON data."""
    kind: Any = type(result)
    return _adapter(kind).dump_python(result, mode="json", by_alias=True, warnings=False, fallback=_plain)


def _plain(value: Any) -> Any:
    """Return a value of a type that pydantic does not know: the report of a finished action must not fail."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Iterable) else getattr(value, "item", lambda: str(value))()


def schema(result: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type of results, or of a union of such types."""
    # The types have no configuration of their own; a list's applies to its items.
    adapter = TypeAdapter(list[result], config=ConfigDict(use_attribute_docstrings=True))
    body = adapter.json_schema(mode="serialization", schema_generator=_ResultSchema)
    definitions = {"$defs": body["$defs"]} if "$defs" in body else {}
    return {"$schema": _ResultSchema.schema_dialect, **body["items"], **definitions}
