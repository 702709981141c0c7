"""Deploy an environment, or an instance of a template."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from tritonstack.base.results import Internal, public
from tritonstack.files.environment.templates import Instance
from tritonstack.files.loading import ProjectFiles, sample_instance
from tritonstack.files.project.workspace import Workspace
from tritonstack.operate.deploy.deploying import deploy_workspace
from tritonstack.operate.deploy.instance_request import InstanceRequest, plan_instance
from tritonstack.operate.deploy.requirements import require_available, require_built
from tritonstack.operate.shared.checkout import Checkout
from tritonstack.operate.shared.session import Session, read_instance


@dataclass(frozen=True)
class Deployment:
    """A finished deployment."""

    environment: str
    endpoints: dict[str, str]
    """Endpoint name in the environment file -> full name in SageMaker; all are InService."""
    instance: Internal[Instance | None] = None
    """The instance that was deployed; None for an environment that is no instance of a template."""

    @public
    def owner(self) -> str | None:
        """The owner of an instance of a template."""
        return self.instance.owner if self.instance else None

    @public
    def expires(self) -> str | None:
        """When an instance of a template expires."""
        return self.instance.expires if self.instance else None


def deploy(
    session: Session,
    environment: str,
    *,
    request: InstanceRequest | None = None,
    bootstrap: bool = False,
) -> Deployment:
    """Deploy an environment; with a request, an instance of the template `environment`.

    `bootstrap` allows `cdk bootstrap` if the account needs it. Raises TritonstackError on failure.
    """
    workspace = _instance(session, environment, request) if request else session.workspace(environment)
    require_built(workspace)
    spec = workspace.spec
    cloud = session.cloud(spec)
    require_available(session, workspace, cloud)
    deploy_workspace(session, workspace, cloud, bootstrap=bootstrap)
    endpoints = {name: spec.endpoint_name(name) for name in spec.endpoints}
    return Deployment(spec.name, endpoints, workspace.instance)


def _instance(session: Session, environment: str, request: InstanceRequest) -> Workspace:
    files = ProjectFiles(session.project)
    template = files.template(environment)
    spec = files.instance(sample_instance(environment, request.name)).spec
    instance = plan_instance(
        template,
        request,
        deployed=read_instance(session.cloud(spec), spec),
        actor=Checkout(session.project.root).actor(),
        now=datetime.now(UTC),
    )
    return files.instance(instance)
