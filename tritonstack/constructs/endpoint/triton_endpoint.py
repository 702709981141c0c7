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

from collections.abc import Callable, Iterable, Iterator, Sequence

import aws_cdk as cdk
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from tritonstack.base import naming
from tritonstack.base.error_kinds import ConstructError
from tritonstack.base.errors import UsageError
from tritonstack.base.yaml import Violation
from tritonstack.constructs.endpoint.autoscaling import Autoscaling
from tritonstack.constructs.endpoint.endpoint_data import AnswerTopics, EndpointData
from tritonstack.constructs.endpoint.inference_component import inference_component
from tritonstack.constructs.endpoint.rollouts import check_rollback_names, endpoint_deployment, rollback_ids
from tritonstack.constructs.endpoint.triton_model import retain_serving
from tritonstack.constructs.endpoint.triton_variant import TritonVariant
from tritonstack.constructs.iam import grants
from tritonstack.constructs.model_data import ModelArchive
from tritonstack.constructs.monitoring.endpoint_alarms import EndpointAlarms, compares_instances
from tritonstack.constructs.monitoring.endpoint_dashboard import EndpointDashboard
from tritonstack.constructs.monitoring.endpoint_log import EndpointLog
from tritonstack.constructs.monitoring.monitored import monitored
from tritonstack.facts.regions import unoffered
from tritonstack.files.endpoint.endpoint import ServingOptions
from tritonstack.files.endpoint.rollouts import AlarmId
from tritonstack.files.endpoint.rules import (
    RuledEndpoint,
    component_violations,
    mode_violations,
    multi_model_violations,
    rollout_violations,
    scaling_violations,
)
from tritonstack.files.endpoint.variants import Variant

# Check an endpoint at synthesis for options that SageMaker would reject or ignore at deployment.
#
# Endpoints from environment files were validated when the file was read. Endpoints of custom CDK apps are
# validated here with the same rules.


_RULES: Sequence[Callable[[RuledEndpoint], Iterator[Violation]]] = (
    mode_violations,
    multi_model_violations,
    component_violations,
    scaling_violations,
    rollout_violations,
)


def check_endpoint(
    name: str, variants: Sequence[TritonVariant], options: ServingOptions, *, data_bucket: str | None
) -> None:
    """Reject an invalid endpoint."""
    _check_variants(variants)
    _check_name(name, options)
    if (options.asynchronous or options.data_capture) and not data_bucket:
        raise ConstructError(
            "asynchronous endpoints and data capture need a bucket",
            remedy="set data_bucket to the name of a bucket",
        )
    _check_containers(variants, options)
    ruled = RuledEndpoint(
        options,
        tuple(_as_ruled(variant, options) for variant in variants),
        multi_model=variants[0].model.multi_model,
    )
    for rule in _RULES:
        for violation in rule(ruled):
            field = ".".join(map(str, violation.path))
            raise UsageError(
                f"{name}: {field}: {violation.message}", remedy=violation.remedy, code=violation.code
            )


def check_rollback_ids(name: str, alarms: Iterable[AlarmId] | None, existing: Iterable[str]) -> None:
    """Reject rollback alarms that the endpoint does not have: they would never trigger."""
    available = set(existing)
    for alarm in alarms or ():
        if alarm not in available:
            raise ConstructError(
                f"{name}: rollout.roll_back_on: this endpoint has no alarm {alarm!r}",
                remedy=f"remove it, or choose one of: {', '.join(sorted(available)) or 'none'}",
            )


def _check_variants(variants: Sequence[TritonVariant]) -> None:
    if not variants or variants[0].shadow:
        raise ConstructError(
            "an endpoint needs at least one production variant",
            remedy=("put a variant without shadow=True first in variants"),
        )
    names = [variant.name for variant in variants]
    if len(set(names)) < len(names):
        raise ConstructError(
            f"duplicate variant name in {', '.join(names)}", remedy="give each variant a unique name"
        )
    if any(variant.shadow for variant in variants) and len(variants) > 2:
        raise ConstructError(
            "SageMaker allows one shadow variant, with exactly one production variant",
            remedy="remove the other variants, or serve them from a second endpoint",
        )
    if len(variants) > 1 and any(variant.model.multi_model for variant in variants):
        raise ConstructError(
            "a multi-model endpoint has exactly one variant",
            remedy="remove the other variants, or serve them from a second endpoint",
        )


def _check_containers(variants: Sequence[TritonVariant], options: ServingOptions) -> None:
    for variant in variants:
        for name in ("environment", "network_isolation"):
            if getattr(variant.model.options, name) != getattr(options, name):
                raise ConstructError(
                    (
                        f"{name} differs between the options of the endpoint and those of the model of "
                        f"variant {variant.name!r}"
                    ),
                    remedy="pass the same options to TritonModel and TritonEndpoint",
                )


def _check_name(name: str, options: ServingOptions) -> None:
    if cdk.Token.is_unresolved(name):
        return
    longest = naming.component_name(name) if options.components else name
    excess = len(longest) - naming.ENDPOINT_NAME_LIMIT
    if excess > 0:
        raise ConstructError(
            (
                f"{longest!r} has {len(longest)} characters; SageMaker allows at most "
                f"{naming.ENDPOINT_NAME_LIMIT} in the name of an endpoint or inference component"
            ),
            remedy=f"shorten the endpoint's name by {excess} characters",
        )


def _as_ruled(variant: TritonVariant, options: ServingOptions) -> Variant:
    """Convert a variant to the record that the rules check."""
    data = variant.model.data
    return Variant(
        name=variant.name,
        model=data.entry_model if isinstance(data, ModelArchive) else None,
        instance=variant.instance,
        scaling=variant.scaled(options),
        weight=variant.weight,
        shadow=variant.shadow,
    )


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
        return inference_component(
            self,
            "Component",
            endpoint=self.endpoint,
            name=name,
            variant=self._variants[0],
            options=self._options,
            components=components,
            alarm_names=self._rollback_names,
        )

    def _starting_s(self) -> int:
        return max(
            variant.started_within_s(self._options) + (variant.fetched_within_s(self._options) or 0)
            for variant in self._variants
        )
