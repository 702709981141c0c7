"""Report the events of CloudFormation that the CDK prints."""

from __future__ import annotations

from tritonstack.workflows.reporter import Step


def show_event(step: Step, line: str) -> None:
    """Report a line of the CDK if it is an event of a resource; a terminal keeps only failures."""
    columns = [column.strip() for column in line.split(" | ")]
    if len(columns) != 6:
        return
    _, progress, _, status, kind, resource = columns
    text = f"{progress:>5} {status} {kind} {resource.partition(' (')[0]}"
    if step.interactive and "FAILED" not in status:
        step.update(text)
    else:
        step.log(text)
