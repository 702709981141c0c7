"""The role that SageMaker fetches an endpoint's image and artifact with, and writes its log and metrics.

The container itself never has it: it runs without a network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from catalog import images, naming
from stacks.constructs.endpoint_alarms import EndpointAlarms
from stacks.deployment import EndpointDeployment


class ExecutionRole(Construct):
    """May read the versions of one model, pull one image and write one log group."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: EndpointDeployment,
        alarms: EndpointAlarms,
    ) -> None:
        super().__init__(scope, construct_id)
        environment = deployment.environment
        self._region = environment.region
        self._reasons: dict[str, list[str]] = {}
        self._home = f"{environment.region}:{environment.account}"
        role = iam.Role(
            self,
            "Role",
            description=f"SageMaker runs {deployment.endpoint_name} with it",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
        )
        self.arn = role.role_arn
        self.policy = iam.Policy(self, "Policy", roles=[role])
        self._read_artifacts(f"arn:aws:s3:::{environment.artifact_bucket}", deployment.model_prefix)
        self._pull_image()
        self._write_log(deployment.log_group_name)
        self._publish_metrics()
        self._watch_rollback_alarms(alarms)
        if not deployment.has_local_storage:
            self._encrypt_volume(naming.key_alias(environment.base))
        self._acknowledge_patterns()

    def _read_artifacts(self, bucket: str, model_prefix: str) -> None:
        objects = f"{bucket}/{model_prefix}*"
        self._allow(
            ["s3:GetObject"],
            [objects],
            because="all versions of this one model: while an update runs, and after it was rolled back, "
            "machines that start fetch the version before",
        )
        # Without it S3 answers "access denied" for an artifact that was never uploaded.
        self._allow(["s3:ListBucket"], [bucket], {"StringLike": {"s3:prefix": f"{model_prefix}*"}})
        self._allow(
            ["kms:Decrypt"],
            [f"arn:aws:kms:{self._home}:key/*"],
            {
                "StringEquals": {"kms:ViaService": f"s3.{self._region}.amazonaws.com"},
                # What S3 decrypts for: the bucket where its bucket key was used, else the very object.
                "StringLike": {"kms:EncryptionContext:aws:s3:arn": [bucket, objects]},
            },
            because="the key's id is not known to this stack; the conditions admit S3 alone, for the "
            "artifact bucket alone, and take effect at once, where an alias takes up to five minutes",
        )

    def _pull_image(self) -> None:
        registry = f"{self._region}:{images.ACCOUNTS[self._region]}"
        self._allow(
            ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
            [f"arn:aws:ecr:{registry}:repository/{images.REPOSITORY}"],
        )
        self._allow(
            ["ecr:GetAuthorizationToken"],
            ["*"],
            because="ECR's token belongs to no repository: IAM knows only *",
        )

    def _write_log(self, name: str) -> None:
        group = f"arn:aws:logs:{self._home}:log-group:{name}"
        self._allow(
            ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            [group, f"{group}:*"],
            because="the streams of this one group, which SageMaker names after its machines",
        )

    def _publish_metrics(self) -> None:
        self._allow(
            ["cloudwatch:PutMetricData"],
            ["*"],
            {"StringEquals": {"cloudwatch:namespace": ["AWS/SageMaker", "/aws/sagemaker/Endpoints"]}},
            because="metrics are no resources to IAM; the condition admits SageMaker's namespaces alone",
        )

    def _watch_rollback_alarms(self, alarms: EndpointAlarms) -> None:
        self._allow(
            ["cloudwatch:DescribeAlarms"],
            [
                f"arn:aws:cloudwatch:{self._home}:alarm:{name}"
                for name in alarms.names(("latency-p99", "server-errors"))
            ],
        )

    def _encrypt_volume(self, alias: str) -> None:
        self._allow(
            ["kms:CreateGrant", "kms:DescribeKey"],
            [f"arn:aws:kms:{self._home}:key/*"],
            {"ForAnyValue:StringEquals": {"kms:ResourceAliases": alias}},
            because="the key's id is not known to this stack; the alias is that of the environment's key",
        )

    def _allow(
        self,
        actions: Sequence[str],
        resources: Sequence[str],
        conditions: Mapping[str, Mapping[str, object]] | None = None,
        *,
        because: str | None = None,
    ) -> None:
        """Grant something; `because` is why a resource of it is a pattern, for whoever audits the role."""
        self.policy.add_statements(
            iam.PolicyStatement(actions=actions, resources=resources, conditions=conditions)
        )
        if because is not None:
            for pattern in (resource for resource in resources if "*" in resource):
                self._reasons.setdefault(pattern, []).append(because)

    def _acknowledge_patterns(self) -> None:
        # Once a pattern: a second reason for the same one would take the place of the first.
        for pattern, reasons in self._reasons.items():
            cdk.Validations.of(self).acknowledge(
                cdk.Acknowledgment(
                    id=f"AwsSolutions::AwsSolutions-IAM5[Resource::{pattern}]", reason="; and ".join(reasons)
                )
            )
