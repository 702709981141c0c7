"""YAML files as typed records, with the line of each field. Other code imports from here only."""

from tritonstack.base.errors import FieldPath, Violation, closest, suggest
from tritonstack.base.yaml.documents import (
    Document,
    Record,
    RecordT,
    check_data,
    check_distinct,
    load_document,
    parse_document,
    raise_violations,
)
from tritonstack.base.yaml.parsing import (
    MAX_DEPTH,
    MAX_FILE_BYTES,
    MAX_REPEATED,
    MAX_VIOLATIONS,
    TextualDumper,
    field_text,
    in_file,
    load_yaml,
    nearest_line,
    parse_yaml,
    read_text,
    value_at,
)
from tritonstack.base.yaml.violations import (
    Branch,
    Choice,
    ContradictionError,
    branches_at,
)

__all__ = [
    "MAX_DEPTH",
    "MAX_FILE_BYTES",
    "MAX_REPEATED",
    "MAX_VIOLATIONS",
    "Branch",
    "Choice",
    "ContradictionError",
    "Document",
    "FieldPath",
    "Record",
    "RecordT",
    "TextualDumper",
    "Violation",
    "branches_at",
    "check_data",
    "check_distinct",
    "closest",
    "field_text",
    "in_file",
    "load_document",
    "load_yaml",
    "nearest_line",
    "parse_document",
    "parse_yaml",
    "raise_violations",
    "read_text",
    "suggest",
    "value_at",
]
