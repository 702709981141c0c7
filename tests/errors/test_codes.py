"""Every error class has a code, and one class describes each code."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.errors.page import ROOT, error_classes, explanation, kinds, sources
from tritonstack.base.errors import FileViolation, InvalidFilesError, TritonstackError
from tritonstack.workflows.error_codes import FORMER, GROUPS, UNUSED

WITHOUT_CODE = {"TritonstackError", "UsageError", "EndpointClientError"}
"""Classes for many kinds of errors: each raise needs `code=`."""
REPLIED = "tritonstack_local."
"""Other errors of the local cloud become replies with AWS's own codes."""


def test_every_error_class_has_a_code() -> None:
    without = {one.__name__ for one in error_classes() if not one.code and REPLIED not in one.__module__}
    assert without == WITHOUT_CODE


def test_one_class_describes_each_code() -> None:
    described = Counter(one.code for one in error_classes() if vars(one).get("title"))
    assert {one.code for one in error_classes()} - {""} == set(described)
    assert set(described.values()) == {1}
    assert len(described) <= 90
    assert all(re.fullmatch(r"TS\d{3}", code) and code[:3] in GROUPS for code in described)
    assert not described.keys() & (FORMER.keys() | UNUSED.keys())
    assert set(FORMER.values()) <= described.keys()
    titles = [kind.title for kind in kinds().values()]
    assert len(set(titles)) == len(titles)


def test_an_explanation_is_short_and_ends_its_sentences() -> None:
    texts = {code: explanation(kind) for code, kind in kinds().items()}
    wrong = [code for code, text in texts.items() if not 40 <= len(text) <= 400 or not text.endswith(".")]
    assert wrong == []


def test_only_a_class_writes_its_code() -> None:
    written = re.compile(r'^(?!    code = ).*"TS\d{3}"', re.M)
    files = {file for file in sources() if written.search(file.read_text())}
    assert files == {ROOT / "tritonstack/workflows/error_codes.py", ROOT / "model_build/job.py"}


def test_a_report_shows_the_codes() -> None:
    violations = [
        FileViolation(Path("a.yaml"), 3, "name", "unknown key", "remove it", code="TS104"),
        FileViolation(Path("a.yaml"), None, "", "file not found", code="TS101", remedy=None),
    ]
    error = InvalidFilesError(violations)
    assert str(error) == "a.yaml: file not found\na.yaml:3: name: unknown key\n  help: remove it"
    assert error.report() == (
        "error: a.yaml: file not found [TS101]\na.yaml:3: name: unknown key [TS104]\n  help: remove it"
    )
    broken = TritonstackError("it broke", remedy="mend it", code="TS999")
    assert broken.report() == "error[TS999]: it broke\n  help: mend it"
