"""The documentation has short sentences: a median of at most 15 words, and none above 35."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, page_id, sentences, words

LONGEST = 35
MEDIAN = 15


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_no_sentence_is_long(page: Path) -> None:
    assert [text for text in sentences(page) if len(words(text)) > LONGEST] == []


def test_sentences_are_short() -> None:
    assert statistics.median(len(words(text)) for page in PAGES for text in sentences(page)) <= MEDIAN
