"""Every error has a code, every code has a description, and no code is unused or has two meanings."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tritonstack.base.errors import FileViolation, InvalidFilesError, TritonstackError
from tritonstack.base.yaml import Violation
from tritonstack.reference.error_codes import GROUPS, KINDS, RETIRED, UNUSED

ROOT = Path(__file__).parents[2]
LOCAL_CLOUD = ROOT / "packages" / "local_cloud" / "tritonstack_local"
VISIBLE = (
    ROOT / "tritonstack",
    ROOT / "stacks",
    ROOT / "model_build",
    LOCAL_CLOUD / "cloud_folder.py",
    LOCAL_CLOUD / "process.py",
    LOCAL_CLOUD / "state",
)
"""The code whose errors people see. Other errors of the local cloud become replies with AWS's own codes."""
TABLE = ROOT / "tritonstack" / "reference" / "error_codes"
WITHOUT_CODE = {"TritonstackError", "UsageError", "EndpointClientError"}
"""Classes for many kinds of errors: each raise needs `code=`."""
VIOLATIONS = {"FileViolation", "Violation"}
"""What `violation` methods return; those that take a code require it."""


@functools.cache
def trees() -> dict[Path, ast.Module]:
    files = (
        file for place in VISIBLE for file in ([place] if place.is_file() else sorted(place.rglob("*.py")))
    )
    return {file: ast.parse(file.read_text()) for file in files if not file.is_relative_to(TABLE)}


def name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def error_classes() -> dict[str, ast.ClassDef]:
    """All classes derived from TritonstackError, by name."""
    classes = {
        node.name: node
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {"TritonstackError": classes["TritonstackError"]}
    while True:
        derived = {
            name: node
            for name, node in classes.items()
            if name not in found and any(name_of(base) in found for base in node.bases)
        }
        if not derived:
            return found
        found |= derived


def code_of(name: str, classes: dict[str, ast.ClassDef]) -> str | None:
    """The code of a class, its own or inherited."""
    node = classes.get(name)
    if node is None:
        return None
    for item in node.body:
        if isinstance(item, ast.Assign) and [name_of(target) for target in item.targets] == ["code"]:
            assert isinstance(item.value, ast.Constant)
            return str(item.value.value)
    return next((code for base in node.bases if (code := code_of(name_of(base), classes))), None)


def calls(names: set[str]) -> Iterator[tuple[str, ast.Call]]:
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and name_of(node.func) in names:
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node


def used_codes() -> dict[str, list[str]]:
    """Where each code is used."""
    found: dict[str, list[str]] = {}
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and re.fullmatch(r"TS\d+", str(node.value)):
                found.setdefault(str(node.value), []).append(f"{file.relative_to(ROOT)}:{node.lineno}")
    return found


def test_every_error_class_has_a_code() -> None:
    classes = error_classes()
    assert len(classes) > 80
    assert {name for name in classes if code_of(name, classes) is None} == WITHOUT_CODE


def test_broad_errors_get_a_code_where_they_are_raised() -> None:
    found = dict(calls(WITHOUT_CODE))
    assert len(found) > 80
    assert not [place for place, call in found.items() if all(word.arg != "code" for word in call.keywords)]


def needs_remedy(name: str, classes: dict[str, ast.ClassDef]) -> bool:
    """Whether each raise of a class must pass `remedy=`: its `__init__` supplies no remedy itself."""
    node = classes[name]
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            takes = any(argument.arg == "remedy" for argument in item.args.kwonlyargs)
            return takes and "remedy or " not in ast.unparse(item)
    return all(needs_remedy(name_of(base), classes) for base in node.bases if name_of(base) in classes)


def without_remedy(found: list[tuple[str, ast.Call]], *, positional: int = 99) -> list[str]:
    """Where a call passes no remedy, or a remedy that is None."""
    return [
        place
        for place, call in found
        if len(call.args) < positional
        and not any(
            word.arg == "remedy" and not (isinstance(word.value, ast.Constant) and not word.value.value)
            for word in call.keywords
        )
    ]


def test_every_raised_error_has_a_remedy() -> None:
    classes = error_classes()
    names = {name for name in classes if needs_remedy(name, classes)}
    assert {"TritonstackError", "SourceError", "UsageError"} <= names
    found = list(calls(names))
    assert len(found) > 400
    assert without_remedy(found) == []


def test_every_file_violation_has_a_remedy() -> None:
    found = list(calls({"FileViolation"}))
    assert len(found) > 20
    assert without_remedy(found, positional=5) == []
    methods = [
        (place, call)
        for place, call in calls({"violation"})
        if any(word.arg == "code" for word in call.keywords)
    ]
    assert len(methods) > 100
    assert without_remedy(methods) == []


def test_every_violation_of_a_file_has_a_code() -> None:
    found = dict(calls(VIOLATIONS))
    assert len(found) > 100
    assert not [place for place, call in found.items() if all(word.arg != "code" for word in call.keywords)]
    with pytest.raises(TypeError, match="code"):
        FileViolation(Path("x"), None, "", "wrong")
    with pytest.raises(TypeError, match="code"):
        Violation((), "wrong", "correct it")


def test_every_used_code_is_described_and_every_described_code_is_used() -> None:
    used = used_codes()
    assert {code: places for code, places in used.items() if code not in KINDS} == {}
    assert sorted(KINDS.keys() - used.keys()) == []


def test_codes_are_numbered_by_group_and_never_reused() -> None:
    for number, kinds in zip((1, 2, 3, 4, 5, 6, 9), GROUPS.values(), strict=True):
        assert list(kinds) == sorted(kinds)
        assert all(re.fullmatch(rf"TS{number}\d\d", code) for code in kinds)
    assert len(KINDS) == sum(map(len, GROUPS.values()))
    assert not KINDS.keys() & (RETIRED.keys() | UNUSED.keys())
    assert set(RETIRED.values()) <= KINDS.keys()
    titles = [kind.title for kind in KINDS.values()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("code", KINDS)
def test_an_explanation_is_short_and_ends_its_sentences(code: str) -> None:
    kind = KINDS[code]
    assert 5 <= len(kind.title) <= 60
    assert 40 <= len(kind.explanation) <= 400
    assert kind.explanation.endswith((".", "`."))


def test_a_report_shows_the_codes() -> None:
    violations = [
        FileViolation(Path("a.yaml"), 3, "name", "unknown key", "remove it", code="TS104"),
        FileViolation(Path("a.yaml"), None, "", "file not found", code="TS101"),
    ]
    error = InvalidFilesError(violations)
    assert str(error) == "a.yaml: file not found\na.yaml:3: name: unknown key\n  help: remove it"
    assert error.report() == (
        "error: a.yaml: file not found [TS101]\na.yaml:3: name: unknown key [TS104]\n  help: remove it"
    )
    broken = TritonstackError("it broke", remedy="mend it", code="TS999")
    assert broken.report() == "error[TS999]: it broke\n  help: mend it"


def test_the_table_is_not_loaded_without_need() -> None:
    program = "import sys, tritonstack.cli.main; print([m for m in sys.modules if 'error_codes' in m])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
