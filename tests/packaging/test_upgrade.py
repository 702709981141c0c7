"""A repository of each earlier version works with this version after `tritonstack upgrade`.

Its models, environments, locks, and cdk.json stay as they are. The resources that hold data, or that callers
know by name, keep their stacks and logical ids, so that no deployment replaces them.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.packaging.recording import KEPT, RECORDS, kept_resources
from tests.packaging.wheels import Installed

VERSIONS = sorted(folder.name for folder in RECORDS.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(params=VERSIONS)
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of a recorded repository, as of a version that is not this one."""
    folder = tmp_path / "shop"
    shutil.copytree(RECORDS / request.param, folder)
    requirements = folder / "requirements.txt"
    requirements.write_text(requirements.read_text().replace(f"=={request.param}", "==0.0.1"))
    return folder


@pytest.mark.e2e
def test_a_repository_of_an_earlier_version_works(complete: Installed, earlier: Path):
    before = contents(earlier)
    upgrade = complete.run("tritonstack", "upgrade", cwd=earlier)
    assert upgrade.returncode == 0, upgrade.stderr
    after = contents(earlier)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert "requirements.txt" in changed
    locks = {"requirements.lock.txt", "requirements-local.lock.txt"}
    assert changed - locks <= {"requirements.txt", "constraints.txt"}
    for name in locks:
        assert "--hash=sha256:" in after[name].decode()
    pins = re.sub(r" \\\n\s+--hash=\S+", "", after["requirements-local.lock.txt"].decode())
    assert pins == after["constraints.txt"].decode(), "the repository's own commands install with it"
    validate = complete.run("tritonstack", "validate", cwd=earlier)
    assert validate.returncode == 0, validate.stderr
    resources = kept_resources(complete, earlier, "local")
    recorded = json.loads((earlier / KEPT).read_text())
    assert any(recorded.values())
    lost = {
        (stack, logical_id, kind)
        for stack, kinds in recorded.items()
        for logical_id, kind in kinds.items()
        if resources.get(stack, {}).get(logical_id) != kind
    }
    assert lost == set()
