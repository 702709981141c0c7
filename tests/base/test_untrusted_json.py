"""JSON of others: every limit is an error with a reason, and nothing else is."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.environments import many
from tritonstack.base.files import DEEPEST_JSON, parse_json, read_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@many(60)
@given(VALUES, st.booleans())
def test_other_documents_are_read_as_by_json(value, is_ascii):
    text = json.dumps(value, ensure_ascii=is_ascii)
    try:
        content = text.encode()
    except UnicodeEncodeError:  # half of a pair, which is no text
        with pytest.raises(ValueError, match="surrogates"):
            parse_json(text)
        return
    assert parse_json(content) == parse_json(text) == json.loads(text)


@pytest.mark.parametrize("opened", ["[", '{"a":', '[{"[": ', '["\\"",'])
@pytest.mark.parametrize("levels", [DEEPEST_JSON + 1, 200_000])
def test_deep_nesting_is_a_value_error(opened, levels):
    with pytest.raises(ValueError, match="levels"):
        parse_json(opened * levels)


def test_the_deepest_document_and_brackets_in_texts_are_read():
    assert parse_json("[" * DEEPEST_JSON + "]" * DEEPEST_JSON)
    assert parse_json(json.dumps(["[{" * 500, '\\"[' * 500])) == ["[{" * 500, '\\"[' * 500]
    assert parse_json("[[1], [2]]" + " " * 100) == [[1], [2]]
    assert math.isnan(parse_json("NaN"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe[\x001\x00]\x00",
        '"ü"'.encode("latin-1"),
        b"\xef\xbb\xbf{}",
        b'"\xed\xa0\x80"',
        b"[1] 2",
        b'"open',
        b'"open\\',
        b'"\\' * 100_000,
        b"]" * 100_000,
        b"9" * 10_000,
        b"\x00",
    ],
    ids=lambda content: repr(content[:8]),
)
def test_everything_else_is_a_value_error(content):
    with pytest.raises(ValueError):  # noqa: PT011 - the parser's own messages, by version
        parse_json(content)


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"a": 1}')
    assert read_json(file, limit_bytes=8) == {"a": 1}
    with pytest.raises(ValueError, match="larger than 7 bytes"):
        read_json(file, limit_bytes=7)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "missing.json")
