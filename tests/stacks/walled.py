"""An environment with every option of the foundation: a network, a boundary, tags, retained data."""

from pathlib import Path

from tests.stacks.assemblies import lock_everything, write_project
from tritonstack.project.workspace import Workspace

WALLED = """\
name: walled
account: "123456789012"
region: eu-central-1
triton_release: "25.04"
removal: destroy
permissions_boundary: teams/search-boundary
tags: {team: search, cost-centre: "4711"}
network:
  create: {cidr: 10.9.0.0/20, availability_zones: 3}
endpoints:
  captured:
    kind: ensemble
    model: encoder
    instance_type: ml.m5.large
    data_capture: {expiry_days: 12}
"""


def write_walled(folder: Path) -> Workspace:
    """Write a project with this environment, with everything built."""
    project = write_project(folder)
    project.environment_file("walled").write_text(WALLED)
    return lock_everything(project, "walled")
