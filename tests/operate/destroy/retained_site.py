"""An endpoint's stack on a local cloud, with policies and tags as in the project's templates."""

from collections.abc import Sequence
from typing import Any, Self

from packages.local_cloud.tests.cloudformation.stacks import StackDriver, resource
from packages.local_cloud.tests.conftest import Account
from packages.local_cloud.tests.sagemaker.cloud import IMAGE, role_of
from packages.local_cloud.tests.sagemaker.fakes import tarball
from tests.credentials import variables_of
from tritonstack.base import naming
from tritonstack.operate.audit.audit import Item, find_resources
from tritonstack.operate.audit.resources import AuditScope
from tritonstack.operate.destroy.retained import delete_replaced, live_endpoints
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.running import require_running, wait_until_served

BASE, ENDPOINT, STACK = "tritonstack-dev", "tritonstack-dev-search", "tritonstack-dev-endpoint-search"
ROLE = {"Fn::Sub": "arn:aws:iam::${AWS::AccountId}:role/endpoint"}
ARCHIVE = tarball({"model/config.pbtxt": "", "model/1/model.py": ""})
BAD, WORSE = "bad", "worse"
"""The versions of a model that do not start."""
VERSIONS = ("1", "2", "3", "4", "5", "6", BAD, WORSE)


class Deployment:
    """The stack of one endpoint; each version of its model has an archive."""

    def __init__(
        self, account: Account, *, bucket: str | None = None, versions: Sequence[str] = VERSIONS, **tags: str
    ) -> None:
        self.stack = StackDriver(account, STACK)
        self.cloud = Cloud(
            account.account_id,
            account.region,
            variables_of(account.endpoint_url, account.account_id, region=account.region),
        )
        self.tags = {"project": "tritonstack", "environment": "dev", naming.OWNER_TAG: STACK, **tags}
        self.sagemaker = self.cloud.client("sagemaker")
        bucket = bucket or f"artifacts-{account.account_id}"
        s3 = account.client("s3")
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": account.region})
        for version in versions:
            s3.put_object(Bucket=bucket, Key=f"models/minilm/{version}/model.tar.gz", Body=ARCHIVE)
        self.models = f"s3://{bucket}/models/minilm"

    def resources(
        self, version: str, instance: str = "ml.c7i.xlarge", *, challenger: str | None = None
    ) -> dict[str, Any]:
        retained = {"UpdateReplacePolicy": "Retain", "DeletionPolicy": "Retain"}
        tags = [{"Key": key, "Value": value} for key, value in self.tags.items()]
        variant = {
            "VariantName": "main",
            "ModelName": {"Fn::GetAtt": ["Model", "ModelName"]},
            "InstanceType": instance,
            "InitialInstanceCount": 1,
        }
        variants, models = [variant], {"Model": self._model(version, tags) | retained}
        if challenger:
            name = {"Fn::GetAtt": ["Challenger", "ModelName"]}
            variants.append(variant | {"VariantName": "challenger", "ModelName": name})
            models["Challenger"] = self._model(challenger, tags) | retained
        config = resource("AWS::SageMaker::EndpointConfig", ProductionVariants=variants, Tags=tags)
        active = {"Fn::GetAtt": ["Config", "EndpointConfigName"]}
        endpoint = resource("AWS::SageMaker::Endpoint", EndpointName=ENDPOINT, EndpointConfigName=active)
        return models | {"Config": config | retained, "Endpoint": endpoint}

    def _model(self, version: str, tags: Sequence[dict[str, str]]) -> dict[str, Any]:
        return resource(
            "AWS::SageMaker::Model",
            ExecutionRoleArn=role_of(self.sagemaker),
            PrimaryContainer={
                "Image": IMAGE,
                "ModelDataUrl": f"{self.models}/{version}/model.tar.gz",
                "Environment": {"FAKE_STARTS": "no" if version in (BAD, WORSE) else "yes"},
            },
            Tags=tags,
        )

    def create(self, version: str, *, challenger: str | None = None, status: str = "CREATE_COMPLETE") -> None:
        sections = {"Description": "tritonstack: endpoint", "Tags": self._stack_tags()}
        assert self.stack.create(self.resources(version, challenger=challenger), **sections) == status

    def update(self, version: str) -> None:
        sections = {"Description": "tritonstack: endpoint", "Tags": self._stack_tags()}
        assert self.stack.update(self.resources(version), **sections) == "UPDATE_COMPLETE"

    def deploy(self, version: str) -> list[str]:
        """Update the endpoint as `tritonstack deploy` does, and return what was deleted."""
        before = live_endpoints(self.cloud, BASE)
        self.update(version)
        require_running(self.cloud, [STACK])
        live = live_endpoints(self.cloud, BASE)
        return delete_replaced(self.cloud, BASE, [STACK], live, before=before, on_update=lambda _: None)

    def settle(self) -> None:
        """Wait until no update of the endpoint is in progress."""
        wait_until_served(self.cloud, [ENDPOINT], on_change=lambda *_: None)

    def _stack_tags(self) -> list[dict[str, str]]:
        return [{"Key": key, "Value": value} for key, value in self.tags.items() if key != naming.OWNER_TAG]

    @property
    def active(self) -> str:
        described = self.sagemaker.describe_endpoint(EndpointName=ENDPOINT)
        assert described["EndpointStatus"] == "InService"
        return str(described["EndpointConfigName"])

    def outlived(self) -> Self:
        """Delete the stack, as `cdk destroy` does, after an update."""
        self.create("1")
        self.update("2")
        assert self.stack.delete() == "DELETE_COMPLETE"
        return self

    def version_of(self, config: str) -> str:
        described = self.sagemaker.describe_endpoint_config(EndpointConfigName=config)
        variant = described["ProductionVariants"][0]
        model = self.sagemaker.describe_model(ModelName=variant["ModelName"])
        return str(model["PrimaryContainer"]["ModelDataUrl"].split("/")[-2])

    def versions(self) -> list[str]:
        """The versions of all configurations, oldest first; their models exist, and no others."""
        listed = self.sagemaker.list_endpoint_configs(SortOrder="Ascending")["EndpointConfigs"]
        versions = [self.version_of(item["EndpointConfigName"]) for item in listed]
        assert len(self.sagemaker.list_models()["Models"]) == len(versions)
        return versions

    def audited(self) -> list[Item]:
        return list(
            find_resources(
                self.cloud, AuditScope(BASE, {"project": "tritonstack", "environment": "dev"})
            ).items
        )
