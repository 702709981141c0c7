"""What this machine shows of the builder's image (containers/builder) where no container runs it.

The image's Python and the home of its user are this machine's own, at the places where builds look for them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tritonstack.runtime.sandbox import EXPOSE

PYTHON = "/opt/builder"
HOME = "/home/builder"
STATE = f"{HOME}/state"


@dataclass(frozen=True)
class PlayedImage:
    """Folders of this machine by the places where they are shown, and variables, as an image has both."""

    folders: Mapping[str, Path]
    variables: Mapping[str, str]
    words: str


def played_image(*, folder: Path, server_home: Path) -> PlayedImage:
    """Say what plays the image for a build that has `folder` for itself."""
    home = folder / "home-of-builder"
    (home / "state" / "server").mkdir(parents=True)
    folders = {PYTHON: Path(sys.prefix), HOME: home}
    if server_home.is_dir():
        folders[f"{STATE}/server"] = server_home
    return PlayedImage(
        folders=folders,
        variables={
            # Programs lie where this machine has them. No other variable of the cloud is passed on.
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "TRITONSTACK_HOME": STATE,
            **{name: os.environ[name] for name in (EXPOSE,) if name in os.environ},
        },
        words=f"this cloud's Python ({sys.prefix}) is shown as {PYTHON}, an empty home as {HOME}",
    )
