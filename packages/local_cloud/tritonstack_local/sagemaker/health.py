"""Watches an instance's container while it serves, and has it restarted when it has died or hangs."""

from __future__ import annotations

import logging
import time
from typing import Protocol

# A container that has died is noticed within this; each look is a system call.
LOOK_S = 0.1
PING_EVERY_S = 5.0
# After one that has failed.
PING_AGAIN_S = 2.0
# SageMaker's own limit for an answer to /ping.
PING_TIMEOUT_S = 2.0
# So many pings in a row have to fail before a container that runs is taken for dead.
FAILED_PINGS = 3
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0

log = logging.getLogger(__name__)


class Patient(Protocol):
    """What is watched."""

    @property
    def name(self) -> str:
        """What the log calls it."""

    @property
    def running(self) -> bool:
        """Whether its container has not ended."""

    def ended_within(self, seconds: float) -> bool:
        """Wait so long, less if a request has just failed; say whether the instance has been stopped."""

    @property
    def suspect(self) -> bool:
        """Whether a request could not reach it; it gets no other until it has answered a ping."""

    def answers_ping(self, timeout_s: float) -> bool:
        """Ping it; a good answer takes suspicion away."""

    def restart(self) -> None:
        """Put a new container in the place of this one, or raise."""


def watch(patient: Patient) -> None:
    """Watch until the instance has ended."""
    failed, next_ping = 0, time.monotonic() + PING_EVERY_S
    while not patient.ended_within(LOOK_S):
        # A request could not reach it: that is looked into at once.
        doubted = patient.suspect and not failed
        if not patient.running:
            _restart(patient, "has ended")
            failed = 0
        elif not doubted and time.monotonic() < next_ping:
            continue
        elif patient.answers_ping(PING_TIMEOUT_S):
            failed = 0
        else:
            failed += 1
            if failed == FAILED_PINGS:
                _restart(patient, f"has not answered {FAILED_PINGS} pings")
                failed = 0
        next_ping = time.monotonic() + (PING_AGAIN_S if failed else PING_EVERY_S)


def _restart(patient: Patient, reason: str) -> None:
    """Restart, over and over if need be: the endpoint stays InService meanwhile."""
    pause_s = 0.0
    while not patient.ended_within(pause_s):
        log.warning("%s: its container %s and is restarted", patient.name, reason)
        try:
            patient.restart()
        except Exception as fault:  # whatever it was: nobody else would ever restart it
            log.debug("restarting %s", patient.name, exc_info=True)
            reason = f"could not be restarted ({fault})"
            pause_s = min(max(_FIRST_PAUSE_S, 2 * pause_s), _LONGEST_PAUSE_S)
        else:
            return
