"""Edits of YAML files that keep comments and order."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
import yaml

from tritonstack.base.errors import UsageError
from tritonstack.project.scaffold.value_edits import edit_mapping

TEXT = """\
# top
endpoints:
  block:
    kind: ensemble
    scaling:   # how many
      min_instances: 1   # low
      max_instances: 2
      schedules:
        office: {at: "07:00", min: 4, max: 8}
        evening:    # later
          at: "20:00"
      # about requests
      invocations_per_instance: 6000   # measured

    # about alarms
    alarms:
      latency_p99_ms: 250
  braces: {kind: single, scaling: {min_instances: 1}}
  bare:
    kind: single
# end"""


def changed(text: str, path: tuple[str, ...], changes: dict[str, Any]) -> str:
    """Edit a text, check that exactly these values changed, and return the changed lines."""
    after = edit_mapping(text, path, changes)
    expected: Any = yaml.safe_load(text)
    part = expected
    for key in path:
        part = part.setdefault(key, {})
    for key, value in changes.items():
        part.pop(key, None) if value is None else part.update({key: value})
    assert yaml.safe_load(after) == expected
    lines = difflib.ndiff(text.splitlines(), after.splitlines())
    return "\n".join(line for line in lines if line[0] in "+-")


def test_values_change_in_place_and_comments_stay() -> None:
    assert changed(TEXT, ("endpoints", "block", "scaling"), {"min_instances": 3, "max_instances": 8}) == (
        "-       min_instances: 1   # low\n"
        "+       min_instances: 3   # low\n"
        "-       max_instances: 2\n"
        "+       max_instances: 8"
    )


def test_keys_are_removed_and_added_after_the_last_one() -> None:
    changes = {"invocations_per_instance": None, "concurrent_requests_per_model": 4}
    assert changed(TEXT, ("endpoints", "block", "scaling"), changes) == (
        "-       invocations_per_instance: 6000   # measured\n+       concurrent_requests_per_model: 4"
    )


def test_nested_values_are_written_one_entry_per_line() -> None:
    day = {"at": "07:30", "timezone": "UTC", "min": 3, "max": 9}
    assert changed(TEXT, ("endpoints", "block", "scaling"), {"schedules": {"day": day}}) == (
        "+         day: {at: '07:30', timezone: UTC, min: 3, max: 9}\n"
        '-         office: {at: "07:00", min: 4, max: 8}\n'
        "-         evening:    # later\n"
        '-           at: "20:00"'
    )


def test_mappings_in_braces_and_missing_ones() -> None:
    assert changed(TEXT, ("endpoints", "braces", "scaling"), {"min_instances": 2, "max_instances": 4}) == (
        "-   braces: {kind: single, scaling: {min_instances: 1}}\n"
        "+   braces: {kind: single, scaling: {min_instances: 2, max_instances: 4}}"
    )
    assert changed(TEXT, ("endpoints", "bare", "scaling"), {"min_instances": 2}) == (
        "+     scaling: {min_instances: 2}"
    )
    plain = TEXT.replace(", scaling: {min_instances: 1}", "")
    assert changed(plain, ("endpoints", "braces", "scaling"), {"min_instances": 2}) == (
        "-   braces: {kind: single}\n+   braces: {kind: single, scaling: {min_instances: 2}}"
    )
    unended = TEXT.removesuffix("\n# end")
    assert changed(unended, ("endpoints", "bare", "scaling"), {"min_instances": 2}) == (
        "+     scaling: {min_instances: 2}"
    )


def test_nothing_to_change_changes_nothing() -> None:
    assert edit_mapping(TEXT, ("endpoints", "bare", "scaling"), {"min_instances": None}) == TEXT
    assert edit_mapping(TEXT, ("endpoints", "block", "scaling"), {}) == TEXT


def test_comments_within_braces_are_not_lost() -> None:
    text = "endpoints:\n  a:\n    scaling: {min_instances: 1,  # low\n      max_instances: 2}\n"
    with pytest.raises(UsageError, match="line 3: a mapping in braces has comments") as caught:
        edit_mapping(text, ("endpoints", "a", "scaling"), {"min_instances": 2})
    assert caught.value.code == "TS908"
