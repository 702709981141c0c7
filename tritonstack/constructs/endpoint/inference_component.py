"""Deploy a model as an inference component, which scales in copies on the endpoint's instances."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from tritonstack.constructs.data.stored_values import number_parameter
from tritonstack.constructs.endpoint.rollouts import Component, component_deployment
from tritonstack.constructs.endpoint.triton_variant import TritonVariant
from tritonstack.files.endpoint.endpoint import Components, ServingOptions
from tritonstack.files.endpoint.rollouts import Rolling


def inference_component(
    scope: Construct,
    construct_id: str,
    *,
    endpoint: sagemaker.CfnEndpoint,
    name: str,
    variant: TritonVariant,
    options: ServingOptions,
    components: Components,
    alarm_names: Sequence[str],
) -> sagemaker.CfnInferenceComponent:
    """Create the endpoint's inference component; scaling changes its number of copies, down to 0.

    CloudFormation resets the number of copies with each update. So it is a parameter, and `tritonstack
    deploy` passes the number that runs; the CDK keeps the values of the last deployment otherwise.
    """
    scope = Construct(scope, construct_id)
    # At least one copy, even if the minimum is 0: a deployment must prove that the model starts.
    copies = max(components.min_copies, 1)
    rollout = options.planned_rollout
    batch = rollout.batch_copies(copies) if isinstance(rollout, Rolling) else 1
    startup_s, download_s = variant.started_within_s(options), variant.fetched_within_s(options)
    return sagemaker.CfnInferenceComponent(
        scope,
        "Component",
        inference_component_name=name,
        endpoint_name=endpoint.attr_endpoint_name,
        variant_name=variant.name,
        specification=Component.InferenceComponentSpecificationProperty(
            model_name=variant.model.name,
            startup_parameters=Component.InferenceComponentStartupParametersProperty(
                container_startup_health_check_timeout_in_seconds=startup_s,
                model_data_download_timeout_in_seconds=download_s,
            ),
            compute_resource_requirements=_needs(variant, components),
        ),
        runtime_config=Component.InferenceComponentRuntimeConfigProperty(
            copy_count=number_parameter(scope, "Copies", copies, "Running copies of the inference component")
        ),
        deployment_config=component_deployment(
            rollout,
            batch_copies=number_parameter(
                scope, "BatchCopies", batch, "Copies that an update replaces at once"
            ),
            starting_s=startup_s + (download_s or 0),
            alarm_names=alarm_names,
        ),
    )


def _needs(
    variant: TritonVariant, components: Components
) -> Component.InferenceComponentComputeResourceRequirementsProperty:
    gpu = variant.instance.family.accelerator == "gpu"
    return Component.InferenceComponentComputeResourceRequirementsProperty(
        min_memory_required_in_mb=components.memory_mb,
        number_of_cpu_cores_required=components.cpus,
        number_of_accelerator_devices_required=components.accelerators or (1 if gpu else None),
    )
