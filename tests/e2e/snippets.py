"""Run what `tritonstack snippet` prints, as a person would paste it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Site

SDK = Path("node_modules/@aws-sdk/client-sagemaker-runtime")


def run_snippet(site: Site, folder: Path, language: str, *arguments: str) -> str:
    """Return the output of a snippet. JavaScript without the AWS SDK is only parsed: the output is empty."""
    text = str(site.asked("snippet", "local", *arguments, "--language", language)["text"])
    if language in ("curl", "aws-cli"):
        script = folder / f"{language}.sh"
        script.write_text(f"set -e\ncd {folder}\n{text}")
        output = site.run("bash", str(script), with_cloud=True)
        return (folder / "answer.json").read_text() if language == "aws-cli" else output
    if language == "python":
        program = folder / "snippet.py"
        program.write_text(text)
        return site.run(sys.executable, str(program), with_cloud=True)
    module = folder / "snippet.mjs"
    module.write_text(text)
    site.run("node", "--check", str(module))
    if not (site.project.root / SDK).exists():
        return ""
    shutil.copy(module, site.project.root / module.name)
    return site.run("node", str(site.project.root / module.name), with_cloud=True)


def outputs_of(text: str) -> dict[str, Any]:
    """Return the outputs in Triton's JSON reply."""
    return {output["name"]: output["data"] for output in json.loads(text)["outputs"]}
