"""List the rules of project files that no test rejects an example of: `python -m tools.uncovered_rules`.

A rule is a ValueError or a violation that code in RULES creates, by its class or a method of DESCRIBING. It
counts as covered if one of TESTS, the files that hold rejected examples, reaches it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import coverage
import pytest

ROOT = Path(__file__).parents[1]
RULES = ("tritonstack/files",)
TESTS = (
    "tests/delivery/permissions/test_execution_policies.py",
    "tests/delivery/test_delivery_file.py",
    "tests/model_build/inputs/test_input_rows.py",
    "tests/files",
    "tests/facts/test_regions.py",
    "tests/operate/shared/test_new_files.py",
)
DESCRIBING = ("at", "violation")
"""Methods that describe a violation: `UnknownKeyError.at(...)`, `document.violation(...)`."""


@dataclass(frozen=True)
class Rule:
    """A place that rejects a value."""

    file: str
    lines: range
    text: str

    @property
    def place(self) -> str:
        """Return the rule as an editor shows it."""
        return f"{self.file}:{self.lines.start}: {self.text}"


def rules_of(file: Path) -> Iterator[Rule]:
    """Yield the rules in a file."""
    source = file.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        call = node.exc if isinstance(node, ast.Raise) else node
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "id", "")
        describes = name.endswith("Violation") or getattr(call.func, "attr", "") in DESCRIBING
        if name == "ValueError" if isinstance(node, ast.Raise) else describes:
            lines = range(call.lineno, (call.end_lineno or call.lineno) + 1)
            yield Rule(str(file.relative_to(ROOT)), lines, source.splitlines()[call.lineno - 1].strip())


def all_rules() -> list[Rule]:
    """Return the rules of all packages."""
    return [
        rule for folder in RULES for file in sorted((ROOT / folder).rglob("*.py")) for rule in rules_of(file)
    ]


def uncovered(tests: tuple[str, ...] = TESTS) -> list[Rule]:
    """Run tests and return the rules that they do not reach."""
    measured = coverage.Coverage(
        data_file=None, config_file=False, include=[f"{ROOT / folder}/*" for folder in RULES]
    )
    measured.start()
    try:
        status = pytest.main(["-q", "-p", "no:cacheprovider", "-m", "not e2e and not soak", *tests])
    finally:
        measured.stop()
    if status != pytest.ExitCode.OK:
        sys.exit(f"the tests failed: {status}")
    data = measured.get_data()
    reached = {
        rule
        for rule in all_rules()
        if not set(rule.lines).isdisjoint(data.lines(str(ROOT / rule.file)) or ())
    }
    return [rule for rule in all_rules() if rule not in reached]


def main() -> None:
    """Print the uncovered rules; exit with 1 if there are any."""
    rules = uncovered()
    for rule in rules:
        print(rule.place)
    print(f"{len(rules)} of {len(all_rules())} rules have no rejected example")
    sys.exit(bool(rules))


if __name__ == "__main__":
    main()
