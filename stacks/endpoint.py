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
from stacks.removal import removal_policy


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
        if isinstance(planned, list):
            self._refuse(planned)
        else:
            self._compose(planned)

    def _refuse(self, problems: list[FileProblem]) -> None:
        for problem in problems:
            cdk.Annotations.of(self).add_error(str(problem))
        cdk.Validations.of(self).acknowledge(
            cdk.Acknowledgment(
                id="CloudFormation-Validate::F0001",
                reason="the error above says why the stack is empty; that it is empty adds nothing",
            )
        )

    def _compose(self, deployment: EndpointDeployment) -> None:
        endpoint, watched = deployment.endpoint, deployment.watched
        log = EndpointLog(
            self,
            "Log",
            watched=watched,
            retention_days=endpoint.log_retention_days,
            removal=removal_policy(deployment.environment),
        )
        alarms = EndpointAlarms(
            self,
            "Alarms",
            watched=watched,
            alarms=endpoint.alarms,
            topic_arn=deployment.environment.alarm_topic_arn,
        )
        role = ExecutionRole(self, "Execution", deployment=deployment, alarms=alarms)
        model = ServingModel(self, "Model", deployment=deployment, role=role)
        serving = ServingEndpoint(self, "Serving", deployment=deployment, model=model, alarms=alarms)
        # SageMaker would make the log group itself, without retention, and the stack could not make it then.
        serving.node.add_dependency(log)
        Autoscaling(self, "Autoscaling", watched=watched, options=endpoint, endpoint=serving.endpoint)

        self.output("EndpointName", value=deployment.endpoint_name, description="For InvokeEndpoint")
        self.output("Artifact", value=deployment.artifact_url, description="What the endpoint serves")
