"""Triton's tensor datatypes and their sizes on the wire."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

ELEMENT_BYTES = {
    **dict.fromkeys(("BOOL", "INT8", "UINT8"), 1),
    **dict.fromkeys(("INT16", "UINT16", "FP16", "BF16"), 2),
    **dict.fromkeys(("INT32", "UINT32", "FP32"), 4),
    **dict.fromkeys(("INT64", "UINT64", "FP64"), 8),
    "BYTES": 4,  # the length prefix of an empty string
}
"""Minimum bytes per element on the wire."""


def _check_datatype(text: str) -> str:
    if text not in ELEMENT_BYTES:
        raise ValueError(f"unknown datatype {text!r}; expected one of {', '.join(ELEMENT_BYTES)}")
    return text


DatatypeName = Annotated[str, AfterValidator(_check_datatype)]
"""Triton's name of a tensor datatype: FP32, INT64, BYTES."""
