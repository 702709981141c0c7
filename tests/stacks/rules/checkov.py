"""Run checkov, which has its own virtual environment, on templates: once, and without a network."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.stacks.assemblies import ROOT

PYTHON = ROOT / ".venv" / "checkov" / "bin" / "python"


@dataclass(frozen=True, order=True)
class Finding:
    """One rule that one resource violates, or that is suppressed for it."""

    template: str
    resource: str
    check: str


def check_folder(folder: Path) -> set[Finding]:
    """Return checkov's findings in the templates of a folder, with paths relative to it."""
    assert PYTHON.exists(), "checkov is not installed; run `make checkov`"
    settings = ["--framework", "cloudformation", "--skip-download", "--quiet", "--compact", "--soft-fail"]
    result = subprocess.run(
        [str(PYTHON), "-m", "checkov.main", "--directory", str(folder), *settings, "--output", "json"],
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["summary"]["parsing_errors"] == 0, report["summary"]
    return {
        Finding(failed["file_path"].lstrip("/"), failed["resource"].partition(".")[2], failed["check_id"])
        for failed in report["results"]["failed_checks"]
    }


def excused(template: str, content: dict[str, Any]) -> dict[Finding, str]:
    """Return the suppressed rules of resources of a template, with the reasons."""
    return {
        Finding(template, logical_id, skip["id"]): skip["comment"]
        for logical_id, resource in content.get("Resources", {}).items()
        for skip in resource.get("Metadata", {}).get("checkov", {}).get("skip", [])
    }


def without_suppressions(content: dict[str, Any]) -> dict[str, Any]:
    """Return the same template without suppressions."""
    bare: dict[str, Any] = json.loads(json.dumps(content))
    for resource in bare.get("Resources", {}).values():
        resource.get("Metadata", {}).pop("checkov", None)
    return bare
