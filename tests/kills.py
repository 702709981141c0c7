"""Kill each command of an environment's life at one of its AWS calls, and finish it with the same command."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tests.git import Repository
from tritonstack.base.paths import Project
from tritonstack.files.records.locks import load_lock

_FEWEST_CALLS = 8
"""What any of these commands makes at least."""
ROLLED_BACK_AT = "2026-11-22T12:00:00.000000Z"
"""The time that rollbacks of processes write: stacks of equal locks are synthesized once."""
COMMANDS = ("build", "deploy", "promote", "rollback", "destroy")


def run_command(arguments: tuple[str, ...], root: Path, variables: Mapping[str, str], log: Path) -> None:
    """Run a command in this process, which becomes the head of its own process group."""
    # Imported here, because the process of the tests needs neither.
    from tritonstack.cli.main import main
    from tritonstack.operate.rollback import rollback

    rollback.now = lambda: ROLLED_BACK_AT
    os.setsid()
    os.chdir(root)
    os.environ.clear()
    os.environ.update(variables)
    with log.open("w") as stream:
        for number in (1, 2):
            os.dup2(stream.fileno(), number)
    sys.argv = ["tritonstack", *arguments]
    main()


class Killable(Protocol):
    """A project with dev and prod in one account, whose dev has a model of two versions in git's history."""

    project: Project
    repository: Repository

    def run(self, *arguments: str, kill_at: int = 0, answered: bool = False) -> tuple[int, bool]:
        """Run a command to its end, or kill it at an AWS call; return its calls, and whether it was killed.

        The fatal call takes effect if it is `answered`.
        """

    def forget(self, environment: str) -> None:
        """Empty an environment's bucket, and delete its lock."""


class Killer:
    """Kills commands, each `kills` times, at calls spread evenly over all that the command makes.

    What a finished command leaves is the start of the next one. Environments are created in every second
    round and updated in the others. With `destroys`, every third killed command is followed by `destroy`, and
    starts again.
    """

    def __init__(self, site: Killable, kills: int, *, destroys: bool, seed: int) -> None:
        self.site, self.kills, self.destroys = site, kills, destroys
        self.killed = Counter[str]()
        self.calls: dict[tuple[str, bool], int] = {}
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._parts = {name: self._random.sample(range(kills), kills) for name in COMMANDS}

    def run(self) -> None:
        for number in range(2 * self.kills + 2):
            if all(self.killed[name] >= self.kills for name in COMMANDS):
                break
            self._round(number)
        for environment in ("dev", "prod"):
            self.site.run("destroy", environment, "--yes")
            self.site.run("audit", environment, "--gone")

    def _round(self, number: int) -> None:
        site, even = self.site, number % 2 == 0
        lock = site.project.lock_file("dev")
        site.repository.git("checkout", "--", str(lock))
        later = self._digest("dev")
        site.forget("dev")
        self._kill(number, "build", "dev", "--local")
        assert self._digest("dev") == later
        site.repository.git("checkout", "--", str(lock))  # with the commit that it was built from
        self._kill(number, "deploy", "dev")
        site.forget("prod")
        self._kill(number, "promote", "dev", "prod")
        assert self._digest("prod") == later
        self._kill(number, "rollback", "dev", "search")
        assert self._digest("dev") != later
        self._kill(number, "destroy", "dev" if even else "prod", "--yes")

    def _kill(self, number: int, *command: str) -> None:
        name, even = command[0], number % 2 == 0
        if self.killed[name] < self.kills:
            at, answered = self._call(number, name, even), self._random.random() < 0.5
            calls, killed = self.site.run(*command, kill_at=at, answered=answered)
            self.killed[name] += killed
            if not killed:  # it made fewer calls than the last time
                self.calls[name, even] = calls
                return
            if self.destroys and number % 3 == 2 and name != "rollback":
                self.site.run("destroy", "prod" if "prod" in command else "dev", "--yes")
        calls, _ = self.site.run(*command)
        self.calls.setdefault((name, even), calls)

    def _call(self, number: int, name: str, even: bool) -> int:
        """Return the call of this round."""
        part = self._random.random()
        if number < self.kills:
            part = (self._parts[name][number] + part) / self.kills
        return 1 + int(part * self.calls.get((name, even), _FEWEST_CALLS))

    def _digest(self, environment: str) -> str:
        (targets,) = load_lock(self.site.project.lock_file(environment)).record.models.values()
        return targets["cpu"].digest
