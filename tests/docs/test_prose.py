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


def test_sentences_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Not. This\n\nOne two. Three\n[four five](six.md)! `a b c` d?\n\n- Item one\n- Item two. End.\n\n"
        "| not | this |\n\n```console\nnot this. either\n```\n\n- **Codes**: [TS101](#a), [TS102](#b)\n"
    )
    assert list(sentences(page)) == [
        "One two.",
        "Three four five!",
        "code d?",
        "Item one",
        "Item two.",
        "End.",
    ]
