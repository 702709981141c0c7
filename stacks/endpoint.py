"""Create the stack of one endpoint: role, models, scaling, and alarms.

One stack per endpoint isolates updates, rollbacks, and failures.
"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.deployment import EndpointDeployment, VariantDeployment, plan_deployment
from stacks.environment_stack import EnvironmentStack
from tritonstack.base import naming
from tritonstack.base.errors import FileViolation
from tritonstack.constructs.endpoint.published_targets import PublishedTargets
from tritonstack.constructs.endpoint.triton_endpoint import TritonEndpoint
from tritonstack.constructs.endpoint.triton_model import TritonModel
from tritonstack.constructs.endpoint.triton_variant import TritonVariant
from tritonstack.constructs.iam.granted_role import ServiceRole
from tritonstack.constructs.model_data import ModelNetwork, ModelPrefix
from tritonstack.files.endpoint.endpoint import MAIN
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.project.workspace import Workspace


class EndpointStack(EnvironmentStack):
    """The stack of endpoint `name`.

    Without an artifact, the stack is empty and has an error annotation: CDK then rejects this stack with our
    message, while the foundation can still be deployed.
    """

    def __init__(self, scope: Construct, *, workspace: Workspace, name: str) -> None:
        environment = workspace.spec
        super().__init__(
            scope,
            stack_name=naming.endpoint_stack_name(environment.base, name),
            description=f"tritonstack: endpoint {environment.endpoint_name(name)}",
            environment=environment,
        )
        planned = plan_deployment(workspace, name)
        if isinstance(planned, list):
            self._add_errors(planned)
        else:
            self._compose(planned)

    def _add_errors(self, violations: list[FileViolation]) -> None:
        for violation in violations:
            cdk.Annotations.of(self).add_error(violation.coded())
        cdk.Validations.of(self).acknowledge(
            cdk.Acknowledgment(
                id="CloudFormation-Validate::F0001", reason="the error above explains why the stack is empty"
            )
        )

    def _compose(self, deployment: EndpointDeployment) -> None:
        environment = deployment.environment
        key_arn = self.shared_value("KeyArn", name=naming.KEY_PARAMETER)
        network = self._network(environment)
        main, *others = deployment.variants
        first = self._variant(main, deployment, key_arn=key_arn, network=network)
        serving = TritonEndpoint(
            self,
            "Serving",
            endpoint_name=deployment.endpoint_name,
            # One role: that of a removed variant would be deleted, although the variant may still serve.
            variants=[
                first,
                *(
                    self._variant(other, deployment, key_arn=key_arn, network=network, role=first.model.role)
                    for other in others
                ),
            ],
            options=deployment.endpoint,
            key_arn=key_arn,
            alarm_topic_arn=environment.alarm_topic_arn,
            data_bucket=environment.data_bucket,
            removal=self.removal,
        )
        if deployment.target_models:
            targets = PublishedTargets(
                self,
                "Targets",
                path=naming.targets_path(environment.base, deployment.name),
                targets=deployment.target_models,
            )
            # Callers learn of a model after the endpoint's own update, and not if that is rolled back.
            targets.node.add_dependency(serving.endpoint)
        self._add_outputs(deployment, serving)

    def _variant(
        self,
        planned: VariantDeployment,
        deployment: EndpointDeployment,
        *,
        key_arn: str,
        network: ModelNetwork | None,
        role: ServiceRole | None = None,
    ) -> TritonVariant:
        spec = planned.spec
        model = TritonModel(
            self,
            "Model" if spec.name == MAIN else f"Model-{spec.name}",
            data=planned.data,
            image=planned.image,
            key_arn=key_arn,
            network=network,
            options=deployment.endpoint,
            role=role,
        )
        return TritonVariant(
            model,
            instance_type=spec.instance.name,
            name=spec.name,
            scaling=spec.scaling,
            weight=spec.weight,
            shadow=spec.shadow,
            volume_gb=planned.volume_gb,
            startup_timeout_s=planned.startup_timeout_s,
            download_timeout_s=planned.download_timeout_s,
            price_per_hour=planned.price_per_hour,
        )

    def _network(self, environment: EnvironmentSpec) -> ModelNetwork | None:
        if environment.network is None:
            return None
        existing = environment.network.existing
        if existing is not None:
            return ModelNetwork(list(existing.subnet_ids), list(existing.security_group_ids))
        return ModelNetwork(
            self.shared_values("SubnetIds", name=naming.SUBNETS_PARAMETER),
            self.shared_values("SecurityGroupIds", name=naming.SECURITY_GROUPS_PARAMETER),
        )

    def _add_outputs(self, deployment: EndpointDeployment, serving: TritonEndpoint) -> None:
        name, data = deployment.endpoint_name, deployment.variants[0].data
        self.output("EndpointName", value=name, description="Endpoint name for InvokeEndpoint")
        if isinstance(data, ModelPrefix):
            self.output("ModelPrefix", value=data.url, description="S3 prefix of the TargetModels")
            path = naming.targets_path(deployment.environment.base, deployment.name)
            self.output("ModelNames", value=path, description="Path of the SSM parameters with model names")
        else:
            self.output("Artifact", value=data.url, description="S3 URL of the deployed artifact")
        if serving.topics:
            bucket = f"s3://{deployment.environment.data_bucket}"
            requests, answers = naming.request_prefix(name), naming.answer_prefix(name)
            self.output("InputPrefix", value=f"{bucket}/{requests}", description="S3 prefix for requests")
            self.output("OutputPrefix", value=f"{bucket}/{answers}", description="S3 prefix of answers")
            self.output(
                "SuccessTopic", value=serving.topics.success_arn, description=("SNS topic for answers")
            )
            self.output("ErrorTopic", value=serving.topics.error_arn, description="SNS topic for failures")
