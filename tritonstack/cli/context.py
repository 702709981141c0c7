"""The global options, as a session that reports to the console."""

from __future__ import annotations

from tritonstack.base.paths import Project
from tritonstack.cli.output import Output
from tritonstack.operate.shared.session import Session


class Context(Session):
    """A session whose reporter is the console output."""

    def __init__(self, project: Project, output: Output) -> None:
        super().__init__(project, output)
        self.output = output
