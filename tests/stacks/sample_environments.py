"""The sample environments: two with more than `assemblies` has, and every one by its name."""

from pathlib import Path

from tests.stacks.assemblies import MODEL, lock_everything, write_project
from tritonstack.files.project.workspace import Workspace

# Every option of the foundation: a network, a boundary, tags.
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

# Every kind of build: CPU, A10G, a fleet, a Processing job.
FLEET = "arn:aws:codebuild:eu-central-1:123456789012:fleet/t4s:0a1b2c3d-0000-4000-8000-0a1b2c3d4e5f"

FACTORY = f"""\
name: factory
account: "123456789012"
region: eu-central-1
triton_release: "24.09"
removal: retain
builds:
  machines:
    sm75: {{fleet: "{FLEET}"}}
  timeout_minutes: 300
  concurrent: 2
  hugging_face_token_secret: search/hugging-face
  log_retention_days: 30
endpoints:
  on-cpu: {{kind: ensemble, model: far, instance_type: ml.m5.large}}
  on-a10g: {{kind: ensemble, model: encoder, instance_type: ml.g5.xlarge}}
  on-t4: {{kind: ensemble, model: encoder, instance_type: ml.g4dn.xlarge}}
  on-l4: {{kind: ensemble, model: encoder, instance_type: ml.g6.2xlarge}}
  ours: {{kind: single, model: own, instance_type: ml.m5.large}}
  ours-on-l4: {{kind: ensemble, model: chain, instance_type: ml.g6.2xlarge}}
  hub: {{kind: ensemble, model: hub, instance_type: ml.m5.large}}
"""

OWN = """\
name: own
description: Code of our own.
recipe: {kind: python}
tensors: {x: {datatype: FP32, shape: [1]}}
test_inputs: [{inputs: {x: [1.0]}}]
"""

CHAIN = """\
name: chain
description: Another model after one of our own.
recipe:
  kind: ensemble
  steps: [{model: own}, {model: far}]
test_inputs: [A man is eating food.]
"""

FACTORY_MODELS = {
    "far": MODEL.format(name="far").replace("file://weights", "s3://team-models/far/v3"),
    "hub": MODEL.format(name="hub").replace("file://weights", "hf://a-team/a-model@0a1b2c3"),
    "own": OWN,
    "chain": CHAIN,
}


def write_sample(folder: Path, name: str) -> Workspace:
    """Write a project with a sample environment, with everything built."""
    project = write_project(folder)
    if name == "walled":
        project.environment_file(name).write_text(WALLED)
    if name == "factory":
        project.environment_file(name).write_text(FACTORY)
        for model, text in FACTORY_MODELS.items():
            project.model_file(model).parent.mkdir()
            project.model_file(model).write_text(text)
        (project.model_file("own").parent / "model.py").write_text("class TritonPythonModel: ...\n")
    return lock_everything(project, name)
