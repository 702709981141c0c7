"""Create a SageMaker model for Triton: image, model data, `serve` settings, and role.

model = TritonModel(
    stack, "Model",
    data=ModelArchive("s3://models/encoder/7/model.tar.gz", entry_model="encoder"),
    image=TritonImage("26.05", instance_type="ml.g5.xlarge"),
    key_arn=key.key_arn,
)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from tritonstack.base import naming
from tritonstack.base.error_kinds import ConstructError
from tritonstack.constructs.iam import grants
from tritonstack.constructs.iam.granted_role import ServiceRole
from tritonstack.constructs.iam.skipped_checks import skip_check
from tritonstack.constructs.model_data import (
    ModelArchive,
    ModelNetwork,
    ModelPrefix,
    TritonImage,
    instance_named,
)
from tritonstack.facts.container_variables import RESERVED, ContainerOptions, container_variables
from tritonstack.facts.threads import Threads
from tritonstack.files.endpoint.endpoint import ServingOptions

# Retain what an endpoint may still serve after an update.
#
# If SageMaker rolls an update back, CloudFormation may still report success. It would then delete the
# replaced or removed configuration and model, which serve. `tritonstack deploy` deletes them once nothing
# uses them.


_OVER_OWN_TAGS = 300
"""Priority of the tag: a tag of the same name on the app or stack cannot change it."""


def retain_serving(resource: cdk.CfnResource) -> None:
    """Retain a configuration or model, and tag it with its stack, so that it can be found later.

    RetainExceptOnCreate is not enough: if an update fails, the endpoint may serve what that update created.
    """
    resource.apply_removal_policy(cdk.RemovalPolicy.RETAIN)
    stack = cdk.Stack.of(resource).stack_name
    cdk.Tags.of(resource).add(naming.OWNER_TAG, stack, priority=_OVER_OWN_TAGS)


class TritonModel(Construct):
    """Create a Triton container model, with network isolation unless `options` disable it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        data: ModelArchive | ModelPrefix,
        image: TritonImage | str,
        key_arn: str | None = None,
        network: ModelNetwork | None = None,
        options: ServingOptions | None = None,
        role: ServiceRole | None = None,
    ) -> None:
        """`key_arn` is the key of the model data. Of `options`, only `network_isolation` and `environment`
        apply. `role` is that of another model on the endpoint; default: a new one."""
        super().__init__(scope, construct_id)
        options = options or ServingOptions()
        self.data = data
        self.image = image
        self.network = network
        self.options = options
        uri = image.uri(_region_of(self)) if isinstance(image, TritonImage) else image
        # SageMaker uses the role to fetch image and data and to write the log. With network isolation, the
        # container has no access to it.
        self.role = role or ServiceRole(
            self,
            "Execution",
            assumed_by={
                "sagemaker.amazonaws.com": {
                    "ArnLike": {"aws:SourceArn": grants.AwsScope.of(self).arn("sagemaker", "*")}
                }
            },
            description="IAM role for SageMaker to run a Triton model",
            policy_name="execution",
        )
        aws = grants.AwsScope.of(self)
        self.role.allow(
            [
                *grants.read_model(aws, data, key_arn),
                *grants.pull_image(aws, uri),
                *(grants.enter_network(aws, network) if network else []),
            ]
        )
        model = sagemaker.CfnModel(
            self,
            "Model",
            execution_role_arn=self.role.arn,
            enable_network_isolation=options.network_isolation,
            vpc_config=sagemaker.CfnModel.VpcConfigProperty(
                subnets=network.subnet_ids, security_group_ids=network.security_group_ids
            )
            if network
            else None,
            primary_container=_container(data, uri, model_environment(data, image, options)),
        )
        if not options.network_isolation:
            skip_check(model, "CKV_AWS_370", because="options.network_isolation is set to false")
        # Without this, CloudFormation creates the model before the role's policy.
        model.node.add_dependency(self.role.policy)
        retain_serving(model)
        self.name = model.attr_model_name

    @property
    def multi_model(self) -> bool:
        """Return whether callers choose the model per request."""
        return isinstance(self.data, ModelPrefix)


def model_environment(
    data: ModelArchive | ModelPrefix, image: TritonImage | str, options: ServingOptions
) -> dict[str, str]:
    """Return the environment variables of a container, with threads for its vCPUs if they are known."""
    vcpus, threads = _vcpus(image, options), None
    if vcpus:
        threads = Threads(vcpus, data.instances, data.graphs_decide_threads, data.least_threads)
    return container_environment(data, options.environment, threads)


def _vcpus(image: TritonImage | str, options: ServingOptions) -> int | None:
    """Return the vCPUs of a container; None if its instance type is unknown."""
    if options.components and options.components.cpus:
        return max(1, int(options.components.cpus))
    return instance_named(image.instance_type).vcpus if isinstance(image, TritonImage) else None


def container_environment(
    data: ModelArchive | ModelPrefix, variables: Mapping[str, str], threads: Threads | None = None
) -> dict[str, str]:
    """Return the environment variables of `serve` that differ from its defaults."""
    conflicts = [f"{name}: {reason}" for name, reason in RESERVED.items() if name in variables]
    if conflicts:
        raise ConstructError(
            f"environment: {'; '.join(conflicts)}",
            remedy="omit it: entry_model names the model, and a ModelPrefix selects multi-model mode",
        )
    if isinstance(data, ModelPrefix):
        return container_variables(
            variables, ContainerOptions(keeps_answers=data.keeps_answers, threads=threads)
        )
    options = ContainerOptions(data.entry_model, data.keeps_answers, data.generates, threads, data.streams)
    return container_variables(variables, options)


def _container(
    data: ModelArchive | ModelPrefix, uri: str, environment: Mapping[str, str]
) -> sagemaker.CfnModel.ContainerDefinitionProperty:
    shared: dict[str, Any] = {}
    if isinstance(data, ModelPrefix):
        shared["mode"] = "MultiModel"
        shared["multi_model_config"] = sagemaker.CfnModel.MultiModelConfigProperty(
            model_cache_setting="Enabled" if data.cache else "Disabled"
        )
    return sagemaker.CfnModel.ContainerDefinitionProperty(
        image=uri, model_data_url=data.url, environment=environment, **shared
    )


def _region_of(construct: Construct) -> str:
    region = cdk.Stack.of(construct).region
    if cdk.Token.is_unresolved(region):
        raise ConstructError(
            "the account of SageMaker's image depends on the region, and the stack has no region",
            remedy=(
                "set env=Environment(region=...) on the stack, or pass an image URI instead of a TritonImage"
            ),
        )
    return region
