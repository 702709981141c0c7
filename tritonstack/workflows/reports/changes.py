"""Compare environments with what is deployed, which synthesizes the stacks."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from tritonstack.base.errors import TritonstackError
from tritonstack.operations.aws import AWS_ERRORS
from tritonstack.operations.verification.status import EnvironmentStatus
from tritonstack.project.workspace import Workspace
from tritonstack.workflows.deployment.diff import DeployOutlook, diff
from tritonstack.workflows.reports.report_data import DeployChanges, MissingData, missing_data
from tritonstack.workflows.session import Session

ReadChanges = tuple[DeployChanges | None, list[MissingData]]
"""What a deploy would change; None if that is missing."""
_State = tuple[object, object]
"""What decides the changes: the files, and what is deployed."""


@dataclass
class ChangeReader:
    """Reads what a deploy would change, again only if the files or the last deployment have changed.

    In the background, `read` does not wait: a later call returns the changes.
    """

    in_background: bool = False
    _known: dict[str, tuple[_State, ReadChanges]] = field(default_factory=dict)
    _deployed: dict[str, object] = field(default_factory=dict)
    """What the latest `read` of each environment was given."""
    _running: dict[str, threading.Thread] = field(default_factory=dict)
    _closed: threading.Event = field(default_factory=threading.Event)
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def read(self, session: Session, workspace: Workspace, status: EnvironmentStatus) -> ReadChanges:
        """Return what a deploy of an environment would change, and what is missing."""
        name = workspace.spec.name
        self._deployed[name] = [(one.status, one.deployed and one.deployed.key) for one in status.endpoints]
        state = _state(workspace, self._deployed[name])
        known = self._known.get(name)
        if known is not None and known[0] == state:
            return known[1]
        if not self.in_background:
            self._known[name] = state, _compared(session, name)
            return self._known[name][1]
        if name not in self._running and not self._closed.is_set():
            # A daemon: Ctrl-C does not wait for a synth.
            self._running[name] = threading.Thread(
                target=self._compare, args=(session, name, state), daemon=True
            )
            self._running[name].start()
        return None, [MissingData(f"changes by a deploy of {name}", "the stacks are being compared")]

    def close(self) -> None:
        """Start no more comparisons; one in progress is abandoned."""
        self._closed.set()

    def _compare(self, session: Session, name: str, state: _State) -> None:
        """Compare in the background; keep the result only if it belongs to the state."""
        try:
            with self._one_at_a_time:
                if self._closed.is_set():
                    return
                try:
                    found = _compared(session, name)
                except Exception as error:  # the report names it
                    reason = f"{type(error).__name__}: {error}"
                    found = None, [MissingData(f"changes by a deploy of {name}", reason)]
                try:
                    now = _state(session.workspace(name), self._deployed[name])
                except Exception:  # the files are being edited; the next read names the error
                    return
                if now == state:
                    self._known[name] = state, found
        finally:
            del self._running[name]


def _state(workspace: Workspace, deployed: object) -> _State:
    return (workspace.spec, workspace.lock.record, dict(workspace.hashes)), deployed


def _compared(session: Session, name: str) -> ReadChanges:
    try:
        return _changes(diff(session, name)), []
    except (TritonstackError, *AWS_ERRORS) as error:
        return None, [missing_data(f"changes by a deploy of {name}", error)]


def _changes(outlook: DeployOutlook) -> DeployChanges:
    stacks = []
    for plan in outlook.changes.plans:
        planned = [one for one in outlook.resource_changes.get(plan.stack, ()) if not one.expected]
        taken = [one.description for one in outlook.taken_by(plan.stack)]
        if plan.action != "nothing" or taken:
            details = (*taken, *plan.details, *(one.description for one in planned))
            stacks.append((plan.description, details))
    copied = [f"{name}: {', '.join(models)}" for name, models in outlook.model_prefixes.items()]
    others = (*outlook.leftovers, *(f"copied to the model prefix of {line}" for line in copied))
    return DeployChanges(tuple(outlook.models), tuple(stacks), others, outlook.rejected)
