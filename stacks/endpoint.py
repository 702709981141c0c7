"""One endpoint: what it may do, what it runs, how it scales, and what raises an alarm.

A stack an endpoint keeps updates, rollbacks and failures apart.
"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from catalog import naming
from catalog.errors import FileProblem
from catalog.workspace import Workspace
from stacks.constructs.autoscaling import Autoscaling
from stacks.constructs.endpoint_alarms import EndpointAlarms
from stacks.constructs.endpoint_log import EndpointLog
from stacks.constructs.execution_role import ExecutionRole
from stacks.constructs.serving_endpoint import ServingEndpoint
from stacks.constructs.serving_model import ServingModel
from stacks.deployment import EndpointDeployment, plan_deployment
from stacks.environment_stack import EnvironmentStack


class EndpointStack(EnvironmentStack):
    """The endpoint `name` of an environment.

    Without an artifact to serve, the stack is empty and carries the reason as an error: CDK then refuses
    this stack in our words, while the foundation, which artifacts are uploaded to, still deploys.
    """

    def __init__(self, scope: Construct, *, workspace: Workspace, name: str) -> None:
        environment = workspace.spec
        super().__init__(
            scope,
            stack_name=naming.endpoint_stack_name(environment.base, name),
            description=f"tritonstack: the endpoint {environment.endpoint_name(name)}",
            environment=environment,
        )
        planned = plan_deployment(workspace, name)
        if isinstance(planned, FileProblem):
            self._refuse(planned)
        else:
            self._compose(planned)

    def _refuse(self, problem: FileProblem) -> None:
        cdk.Annotations.of(self).add_error(str(problem))
        cdk.Validations.of(self).acknowledge(
            cdk.Acknowledgment(
                id="CloudFormation-Validate::F0001",
                reason="the error above says why the stack is empty; that it is empty adds nothing",
            )
        )

    def _compose(self, deployment: EndpointDeployment) -> None:
        log = EndpointLog(self, "Log", deployment=deployment)
        alarms = EndpointAlarms(self, "Alarms", deployment=deployment)
        role = ExecutionRole(self, "Execution", deployment=deployment, alarms=alarms)
        model = ServingModel(self, "Model", deployment=deployment, role=role)
        serving = ServingEndpoint(self, "Serving", deployment=deployment, model=model, alarms=alarms)
        # SageMaker would make the log group itself, without retention, and the stack could not make it then.
        serving.node.add_dependency(log)
        if deployment.scales:
            Autoscaling(self, "Autoscaling", deployment=deployment, serving=serving)

        self.output("EndpointName", value=deployment.endpoint_name, description="For InvokeEndpoint")
        self.output("Artifact", value=deployment.artifact_url, description="What the endpoint serves")
