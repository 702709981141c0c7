"""The SageMaker model: an image, an artifact, and what the image's `serve` is told."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from stacks.constructs.execution_role import ExecutionRole
from stacks.deployment import EndpointDeployment


class ServingModel(Construct):
    """A Triton container of this very artifact, cut off from the network."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: EndpointDeployment,
        role: ExecutionRole,
    ) -> None:
        super().__init__(scope, construct_id)
        model = sagemaker.CfnModel(
            self,
            "Model",
            execution_role_arn=role.arn,
            enable_network_isolation=True,
            primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
                image=deployment.image_uri,
                model_data_url=deployment.artifact_url,
                environment=container_environment(deployment),
            ),
        )
        # Otherwise CloudFormation makes the model as soon as there is a role, and before the role's policy.
        model.node.add_dependency(role.policy)
        self.name = model.attr_model_name


def container_environment(deployment: EndpointDeployment) -> Mapping[str, str]:
    """What `serve` reads; everything else it knows keeps its default."""
    return {
        # The pipeline's entry. Its parts lie beside it and are loaded because it needs them.
        "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": deployment.model.name,
        # serve's default is true: several lines a request, and CloudWatch takes money for each.
        "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
    }
