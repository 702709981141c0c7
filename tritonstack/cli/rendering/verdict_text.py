"""Render the verdict of `verify` for the console."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tritonstack.operate.verify.checks import Check
from tritonstack.operate.verify.verdicts import Verdict


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """Render a verdict: one line per check, with its failures and notes below."""
    if verdict.stacks:
        yield verdict.environment
        yield from _check_lines(verdict.stacks)
        yield ""
    for endpoint in verdict.endpoints:
        yield f"{endpoint.name}: {endpoint.full_name}"
        yield from _check_lines(endpoint.checks)
        if endpoint.not_compared:
            yield f"  checked by template only: {_counted(endpoint.not_compared)}"
        yield ""
    if verdict.revision.files:
        yield str(verdict.revision.note)
    yield verdict.summary


def _check_lines(checks: Iterable[Check]) -> Iterator[str]:
    checks = list(checks)
    width = max((len(check.aspect) for check in checks), default=0)
    for check in checks:
        mark = "✓" if check.passed else "✗"
        yield f"  {mark} {check.aspect:<{width}}  {check.detail}".rstrip()
        yield from (f"      {failure}" for failure in check.failures)
        yield from (f"      (note: {note})" for note in check.notes)


def _counted(kinds: Mapping[str, int]) -> str:
    """Count the resources per CloudFormation type."""
    return ", ".join(f"{count} {kind.removeprefix('AWS::')}" for kind, count in sorted(kinds.items()))
