"""Create a SageMaker endpoint for Triton models: variants, rollout, scaling, alarms, and log.

    TritonEndpoint(
        stack, "Endpoint",
        endpoint_name="search",
        variants=[TritonVariant(model, instance_type="ml.g5.xlarge")],
        key_arn=key.key_arn,
    )

The options select the mode: real-time or asynchronous, variants on their own instances or an inference
component. The endpoint grants its models' roles what serving needs.
"""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from tritonstack.constructs.endpoint.answer_topics import AnswerTopics
from tritonstack.constructs.endpoint.autoscaling import Autoscaling
from tritonstack.constructs.endpoint.endpoint_checks import check_endpoint, check_rollback_ids
from tritonstack.constructs.endpoint.endpoint_data import EndpointData
from tritonstack.constructs.endpoint.inference_component import InferenceComponent
from tritonstack.constructs.endpoint.retention import retain_serving
from tritonstack.constructs.endpoint.rollouts import check_rollback_names, endpoint_deployment, rollback_ids
from tritonstack.constructs.endpoint.triton_variant import TritonVariant
from tritonstack.constructs.iam import grants
from tritonstack.constructs.monitoring.endpoint_alarms import EndpointAlarms
from tritonstack.constructs.monitoring.endpoint_dashboard import EndpointDashboard
from tritonstack.constructs.monitoring.endpoint_log import EndpointLog
from tritonstack.constructs.monitoring.monitored import monitored
from tritonstack.constructs.monitoring.release_alarms import compares_instances
from tritonstack.facts.regions import unoffered
from tritonstack.files.endpoint.endpoint import ServingOptions

_Config = sagemaker.CfnEndpointConfig


class TritonEndpoint(Construct):
    """Create an endpoint that keeps its instance counts across updates and rolls back on alarms."""

    def __init__(  # noqa: PLR0913  seven parameters are the limit of a construct, beside scope and id
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint_name: str,
        variants: Sequence[TritonVariant],
        options: ServingOptions | None = None,
        key_arn: str | None = None,
        alarm_topic_arn: str | None = None,
        data_bucket: str | None = None,
        removal: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """`variants`: the main one first. `key_arn` encrypts volumes, log, topics, and objects in
        `data_bucket` (data capture and asynchronous answers). `removal` is the removal policy of the log."""
        super().__init__(scope, construct_id)
        options = options or ServingOptions()
        check_endpoint(endpoint_name, variants, options, data_bucket=data_bucket)
        self.endpoint_name = endpoint_name
        self._variants = tuple(variants)
        self._options = options
        self._warn_of_missing_instance_types()
        self._data = EndpointData(data_bucket or "", endpoint_name, key_arn)
        self._volume_key = self._key_of_volumes(key_arn)
        self.monitored = monitored(
            endpoint_name,
            (variant.monitored(options) for variant in variants),
            options=options,
            multi_model=variants[0].model.multi_model,
        )
        log = EndpointLog(
            self,
            "Log",
            monitored=self.monitored,
            retention_days=options.log_retention_days,
            removal=removal,
            key_arn=key_arn,
        )
        ids = rollback_ids(options.planned_rollout, multi_model=self.monitored.multi_model)
        compares = compares_instances(options.planned_rollout, asynchronous=options.asynchronous is not None)
        self.alarms = EndpointAlarms(
            self,
            "Alarms",
            monitored=self.monitored,
            alarms=options.alarms,
            topic_arn=alarm_topic_arn,
            compared=ids if compares else (),
        )
        EndpointDashboard(self, "Dashboard", monitored=self.monitored, alarms=self.alarms, options=options)
        self.topics = (
            AnswerTopics(self, "Topics", endpoint_name=endpoint_name, key_arn=key_arn)
            if options.asynchronous
            else None
        )
        check_rollback_ids(endpoint_name, options.planned_rollout.roll_back_on, self.alarms.ids)
        self._rollback_names = self.alarms.rollback_names(ids)
        check_rollback_names(self._rollback_names)
        self._bind()
        self.endpoint = self._make_endpoint(self._make_config())
        # The update refers to the alarms, so they must exist first. The log group must too: otherwise
        # SageMaker creates it without retention, and the stack cannot.
        self.endpoint.node.add_dependency(self.alarms, log)
        Autoscaling(
            self, "Autoscaling", monitored=self.monitored, options=options, endpoint=self._make_component()
        )

    def _warn_of_missing_instance_types(self) -> None:
        """Warn if the stack's region has no price for a variant's instance type; a price overrides that."""
        for variant in self._variants:
            # An unresolved region is in no table.
            violation = unoffered(cdk.Stack.of(self).region, variant.instance)
            if violation and variant.price_per_hour is None:
                message, offer = violation
                cdk.Annotations.of(self).add_warning_v2(
                    f"tritonstack:instance-type:{variant.name}",
                    f"{message}; {offer}; if AWS has added them, set price_per_hour of the variant",
                )

    def _bind(self) -> None:
        """Grant the models' roles what serving needs."""
        aws = grants.AwsScope.of(self)
        shared = [
            grants.write_log(aws, self.monitored.log_group_name),
            grants.publish_metrics(component=self.monitored.component is not None),
            *grants.watch_alarms(aws, self._rollback_names),
            *(self._data.capture_grants(aws) if self._options.data_capture else []),
            *(self._data.async_grants(aws, self.topics) if self.topics else []),
            *grants.encrypt_volumes(self._volume_key),
        ]
        for role in {variant.model.role: None for variant in self._variants}:
            role.allow(shared)

    def _key_of_volumes(self, key_arn: str | None) -> str | None:
        """Return the volume key; SageMaker rejects one if any variant's instance type has local disks."""
        own_disks = [variant.has_own_disks for variant in self._variants]
        if key_arn and any(own_disks) and not all(own_disks):
            cdk.Annotations.of(self).add_warning_v2(
                "tritonstack:volume-key",
                (
                    f"{self.endpoint_name}: one variant has instances with local disks, so SageMaker "
                    "accepts no volume key; the volumes of the other variants use an AWS managed key"
                ),
            )
        return None if any(own_disks) else key_arn

    def _make_config(self) -> _Config:
        options, components = self._options, self._options.components is not None
        model = self._variants[0].model
        rendered = [(variant.shadow, variant.to_property(options)) for variant in self._variants]
        config = _Config(
            self,
            # No name: a configuration is immutable, so each change creates a new one.
            "Config",
            production_variants=[variant for shadow, variant in rendered if not shadow],
            shadow_production_variants=[variant for shadow, variant in rendered if shadow] or None,
            kms_key_id=self._volume_key,
            async_inference_config=self._data.async_config(options.asynchronous, self.topics)
            if options.asynchronous and self.topics
            else None,
            data_capture_config=self._data.capture_config(options.data_capture)
            if options.data_capture
            else None,
            # Detailed observability is on, and billed, unless the configuration turns it off.
            metrics_config=_Config.MetricsConfigProperty(
                enable_detailed_observability=options.metrics.detailed,
                enable_enhanced_metrics=options.metrics.enhanced,
                metric_publish_frequency_in_seconds=options.metrics.publish_every_s,
            ),
            # With components, instances are created before any model, so the endpoint has the role and
            # network settings.
            execution_role_arn=model.role.arn if components else None,
            enable_network_isolation=model.options.network_isolation if components else None,
            vpc_config=_Config.VpcConfigProperty(
                subnets=model.network.subnet_ids, security_group_ids=model.network.security_group_ids
            )
            if components and model.network
            else None,
        )
        # Models wait for their roles' policies; with components, the endpoint does not refer to the model.
        config.node.add_dependency(*[variant.model.role.policy for variant in self._variants])
        retain_serving(config)
        return config

    def _make_endpoint(self, config: _Config) -> sagemaker.CfnEndpoint:
        options = self._options
        # Keep the scaled count across updates; apply a fixed count as written.
        retain = options.components is not None or any(
            variant.scaled(options).varies for variant in self._variants
        )
        return sagemaker.CfnEndpoint(
            self,
            "Endpoint",
            endpoint_name=self.endpoint_name,
            endpoint_config_name=config.attr_endpoint_config_name,
            retain_all_variant_properties=retain,
            # Keep only the instance counts; apply weights and data capture as written.
            exclude_retained_variant_properties=[
                sagemaker.CfnEndpoint.VariantPropertyProperty(variant_property_type=kind)
                for kind in ("DesiredWeight", "DataCaptureConfig")
            ]
            if retain
            else None,
            # With components, the rollout configuration belongs to the component.
            deployment_config=None
            if options.components
            else endpoint_deployment(
                options.planned_rollout, starting_s=self._starting_s(), alarm_names=self._rollback_names
            ),
        )

    def _make_component(self) -> sagemaker.CfnInferenceComponent | sagemaker.CfnEndpoint:
        """Create the inference component if needed; return what scaling must wait for."""
        components, name = self._options.components, self.monitored.component
        if components is None or name is None:
            return self.endpoint
        return InferenceComponent(
            self,
            "Component",
            endpoint=self.endpoint,
            name=name,
            variant=self._variants[0],
            options=self._options,
            components=components,
            alarm_names=self._rollback_names,
        ).component

    def _starting_s(self) -> int:
        return max(
            variant.started_within_s(self._options) + (variant.fetched_within_s(self._options) or 0)
            for variant in self._variants
        )
