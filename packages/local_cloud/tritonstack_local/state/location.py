"""The location of a cloud's state."""

from __future__ import annotations

import shutil
from pathlib import Path

_ROOM = "state"


def state_folder(cloud_folder: Path) -> Path:
    """The folder of a cloud's state; everything else in the cloud's folder is temporary."""
    return cloud_folder / _ROOM


def forget(cloud_folder: Path) -> bool:
    """Remove a cloud's state and its copies; return whether there were any."""
    found = [path for path in cloud_folder.glob(f"{_ROOM}*") if path.is_dir()]
    for path in found:
        shutil.rmtree(path)
    return bool(found)
