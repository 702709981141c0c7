"""A project that is delivered from dev through staging to prod, with previews and a pipeline."""

from pathlib import Path

from tests.stacks.assemblies import lock_everything, write_project
from tritonstack.base.paths import Project

DEV, PROD, TOOLS = "111111111111", "222222222222", "333333333333"
REGION = "eu-west-1"

_ENVIRONMENT = """\
name: {name}
account: "{account}"
region: eu-west-1
triton_release: "25.04"
removal: destroy
tags:
  team: search
  environment: {name}
{more}
endpoints:
  search: {{kind: ensemble, model: encoder, instance_type: ml.c7i.xlarge}}
"""

_DELIVERY = f"""\
repository: example/tritonstack
branch: main
environments:
  - name: dev
  - name: staging
  - name: prod
    approval: true
previews: {{template: preview, environment: dev, ttl: 4h}}
pipeline:
  account: "{TOOLS}"
  region: eu-west-1
  connection: arn:aws:codeconnections:eu-west-1:{TOOLS}:connection/0a1b2c3d
"""


def write_delivery_project(folder: Path) -> Project:
    """The project, everything in it built."""
    project = write_project(folder)
    for name in ("sample", "kept", "every"):
        project.environment_file(name).unlink()
    texts = {
        "dev": _ENVIRONMENT.format(name="dev", account=DEV, more=""),
        "staging": _ENVIRONMENT.format(name="staging", account=DEV, more="promotion: {source: dev}"),
        "prod": _ENVIRONMENT.format(
            name="prod",
            account=PROD,
            more="promotion: {source: staging}\npermissions_boundary: team-boundary\nnetwork: {create: {}}",
        ),
    }
    for name, text in texts.items():
        project.environment_file(name).write_text(text)
    preview = _ENVIRONMENT.format(
        name="${name}",
        account=DEV,
        more="template: {locks: dev, purpose: a preview}\n"
        "permissions_boundary: tritonstack-delivery-dev-preview-boundary\nbootstrap_qualifier: preview",
    )
    project.template_file("preview").write_text(preview)
    project.delivery_file.write_text(_DELIVERY)
    (project.root / "requirements.lock.txt").write_text("boto3==1.43.54\n")
    for name in texts:
        lock_everything(project, name)
    return project
