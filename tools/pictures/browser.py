"""Photograph a page in a headless Chromium."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tools.pictures.session import SessionError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SECONDS = 60


def find_browser() -> str:
    """Return the path of Chromium; raise SessionError if there is none."""
    for name in BROWSERS:
        if program := shutil.which(name):
            return program
    raise SessionError(f"install Chromium to draw the report: none of {', '.join(BROWSERS)} is on the PATH")


def photograph(page: Path, *, width: int, height: int) -> bytes:
    """Return a PNG of the top of a page."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "page.png")
        command = [
            find_browser(),
            "--headless=new",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),  # it does not start as root otherwise
            "--disable-gpu",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
            f"--user-data-dir={folder}/profile",
            f"--window-size={width},{height}",
            f"--screenshot={file}",
            page.as_uri(),
        ]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        if ended.returncode != 0 or not file.is_file():
            raise SessionError(f"Chromium took no picture of {page.name}: {ended.stderr.strip()}")
        return file.read_bytes()
