"""Characters that an encoding lacks are replaced by ASCII, not by escape sequences."""

from __future__ import annotations

import pytest

from tritonstack.cli.characters import ERRORS


@pytest.mark.parametrize(
    ("text", "encoding", "expected"),
    [
        ("✓ done – 3 → 4 …", "ascii", b"+ done - 3 -> 4 ..."),
        ("✗ é", "latin-1", b"x \xe9"),
        ("✓ é", "utf-8", "✓ é".encode()),
        ("≠ ≥ \u4e16", "ascii", b"!= >= \\u4e16"),
    ],
)
def test_text_is_written_in_every_encoding(text, encoding, expected):
    assert text.encode(encoding, ERRORS) == expected
