"""Run what `tritonstack snippet` prints, as a person would paste it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Site


def run_snippet(site: Site, folder: Path, language: str, *arguments: str) -> str:
    """Return the output of a snippet."""
    text = str(site.asked("snippet", "local", *arguments, "--language", language)["text"])
    if language == "curl":
        script = folder / "curl.sh"
        script.write_text(f"set -e\ncd {folder}\n{text}")
        return site.run("bash", str(script), with_cloud=True)
    program = folder / "snippet.py"
    program.write_text(text)
    return site.run(sys.executable, str(program), with_cloud=True)


def outputs_of(text: str) -> dict[str, Any]:
    """Return the outputs in Triton's JSON reply."""
    return {output["name"]: output["data"] for output in json.loads(text)["outputs"]}
