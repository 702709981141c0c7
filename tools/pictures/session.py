"""A real session in a new repository, on a local cloud: build, deploy, invoke, change, and destroy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tools.pictures.terminal import Printed, Recording, Screen, record
from tools.pictures.terminal_svg import Frame, draw_film, draw_screen
from tritonstack.base.paths import Project

_NAME = "shop"
_LONGEST_S = 6.0
"""The longest time that a film shows one command; a longer one runs faster."""
_FRAME_S, _TYPING_S, _READING_S, _END_S = 0.2, 0.7, 1.6, 6.0
_GIT = "[user]\nname = Ada\nemail = ada@example.com\n[init]\ndefaultBranch = main\n"


class SessionError(Exception):
    """A command of the session failed, or a picture shows a path of this machine."""


@dataclass
class RecordedSession:
    """A person's terminal in a folder of its own."""

    source: Project
    """The checkout whose Triton server and CDK CLI are used."""
    home: Path
    columns: int = 100
    recordings: list[Recording] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Return the repository of the session."""
        return self.home / _NAME

    def prepare(self) -> None:
        """Write the person's settings."""
        (self.home / ".gitconfig").write_text(_GIT)

    def furnish(self) -> None:
        """Give the new repository what `tritonstack setup` installs."""
        (self.folder / "node_modules").symlink_to(self.source.root / "node_modules")
        (self.folder / ".tritonstack").mkdir()
        (self.folder / ".tritonstack/server").symlink_to(self.source.server_dir)

    def type(self, command: str, *, columns: int = 0, code: int = 0, folder: Path | None = None) -> Recording:
        """Run a command as a person sees it, and keep the recording."""
        recording = record(
            command,
            folder=folder or self.folder,
            variables=self._variables(),
            columns=columns or self.columns,
        )
        if recording.code != code:
            shown = "".join(part.text for part in recording.printed)
            raise SessionError(f"`{command}` exited with {recording.code}, expected {code}:\n{shown}")
        self.recordings.append(self._neutral(recording))
        return self.recordings[-1]

    def run(self, command: str) -> None:
        """Run a command that no picture shows."""
        ended = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self._variables(),
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if ended.returncode != 0:
            raise SessionError(f"`{command}` exited with {ended.returncode}:\n{ended.stdout}")

    def _variables(self) -> dict[str, str]:
        dropped = ("AWS_", "CDK_", "COLUMNS", "GIT_", "NO_COLOR", "PYTHON", "TRITONSTACK_", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        programs = (f"{sys.prefix}/bin", f"{self.source.root}/node_modules/.bin", kept.get("PATH", ""))
        return {**kept, "HOME": str(self.home), "PATH": os.pathsep.join(programs), "LANG": "C.UTF-8"}

    def _neutral(self, recording: Recording) -> Recording:
        """Return a recording that names the folder of the session as a person's."""
        shown = tuple(
            Printed(part.at_s, part.text.replace(str(self.home), "~")) for part in recording.printed
        )
        return replace(recording, printed=shown)


def still(recordings: Iterable[Recording], *, columns: int, title: str = f"~/{_NAME}") -> str:
    """Draw a terminal after some commands."""
    screen = Screen(columns)
    for recording in recordings:
        screen.write(_prompt(recording.command))
        for printed in recording.printed:
            screen.write(printed.text)
    return draw_screen(title, screen.lines(), columns=columns)


def film(recordings: Sequence[Recording], *, columns: int, rows: int) -> str:
    """Draw a terminal in which the commands run, long ones faster than they did."""
    screen = Screen(columns)
    frames = [frame for recording in recordings for frame in _frames(screen, recording, rows)]
    frames[-1] = replace(frames[-1], seconds=_END_S)
    # The last screen comes first, for viewers that show no motion.
    frames.insert(0, replace(frames[-1], seconds=_READING_S))
    return draw_film(f"~/{_NAME}", frames, columns=columns, rows=rows)


def _frames(screen: Screen, recording: Recording, rows: int) -> Iterator[Frame]:
    def seen(seconds: float) -> Frame:
        return Frame(screen.lines()[-rows:], seconds)

    screen.write(_prompt(""))
    yield seen(_TYPING_S)
    screen.write(f"\r{_prompt(recording.command)}")
    faster = max(1.0, recording.seconds / _LONGEST_S)
    last = 0.0
    for printed in recording.printed:
        at = printed.at_s / faster
        if at - last >= _FRAME_S:
            yield seen(at - last)
            last = at
        screen.write(printed.text)
    yield seen(_READING_S)


def _prompt(command: str) -> str:
    return f"\x1b[32m$\x1b[0m \x1b[1m{command}\x1b[0m" + ("\r\n" if command else "")
