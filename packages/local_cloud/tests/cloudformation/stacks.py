"""Deploy small templates through boto3, and wait for the result."""

import json
import time
from dataclasses import dataclass
from typing import Any

from packages.local_cloud.tests.conftest import Account

CAPABILITIES = ["CAPABILITY_NAMED_IAM"]


@dataclass(frozen=True)
class StackDriver:
    """A stack in an account."""

    account: Account
    name: str = "stack"

    @property
    def cloudformation(self) -> Any:
        return self.account.client("cloudformation")

    def create(self, resources: dict[str, Any], **sections: Any) -> str:
        self.begin_create(resources, **sections)
        return self.settled()

    def begin_create(self, resources: dict[str, Any], **sections: Any) -> None:
        self.cloudformation.create_stack(**self._call(resources, sections))

    def update(self, resources: dict[str, Any], **sections: Any) -> str:
        self.begin_update(resources, **sections)
        return self.settled()

    def begin_update(self, resources: dict[str, Any], **sections: Any) -> None:
        self.cloudformation.update_stack(**self._call(resources, sections))

    def delete(self, **options: Any) -> str:
        stack_id = self.described()["StackId"]
        self.cloudformation.delete_stack(StackName=self.name, **options)
        return self.settled(stack_id)

    def propose(self, resources: dict[str, Any], *, kind: str = "UPDATE", **sections: Any) -> dict[str, Any]:
        made = self.cloudformation.create_change_set(
            ChangeSetName="plan", ChangeSetType=kind, **self._call(resources, sections)
        )
        return self.cloudformation.describe_change_set(ChangeSetName=made["Id"], IncludePropertyValues=True)

    def changes(self, resources: dict[str, Any], **sections: Any) -> dict[str, tuple[str, str | None]]:
        """Plan an update: the action and replacement of each resource."""
        planned = self.propose(resources, **sections)
        self.cloudformation.delete_change_set(StackName=self.name, ChangeSetName="plan")
        changes = [change["ResourceChange"] for change in planned["Changes"]]
        return {item["LogicalResourceId"]: (item["Action"], item.get("Replacement")) for item in changes}

    def settled(self, name: str | None = None, *, timeout_s: float = 60) -> str:
        deadline = time.monotonic() + timeout_s
        while True:
            status: str = self.described(name)["StackStatus"]
            if not status.endswith("_IN_PROGRESS"):
                return status
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} is still {status}")
            time.sleep(0.02)

    def described(self, name: str | None = None) -> dict[str, Any]:
        return self.cloudformation.describe_stacks(StackName=name or self.name)["Stacks"][0]

    def parameters(self) -> dict[str, str]:
        """Return the values of the account's SSM parameters."""
        ssm = self.account.client("ssm")
        names = sorted(item["Name"] for item in ssm.describe_parameters()["Parameters"])
        return {name: ssm.get_parameter(Name=name)["Parameter"]["Value"] for name in names}

    def outputs(self) -> dict[str, str]:
        return {item["OutputKey"]: item["OutputValue"] for item in self.described()["Outputs"]}

    def physical_ids(self) -> dict[str, str]:
        found = self.cloudformation.describe_stack_resources(StackName=self.name)["StackResources"]
        return {item["LogicalResourceId"]: item["PhysicalResourceId"] for item in found}

    def events(self, name: str | None = None) -> list[tuple[str, str]]:
        """Return the resource events, oldest first."""
        found = self.cloudformation.describe_stack_events(StackName=name or self.name)["StackEvents"]
        return [(item["LogicalResourceId"], item["ResourceStatus"]) for item in reversed(found)]

    def reasons(self) -> str:
        found = self.cloudformation.describe_stack_events(StackName=self.name)["StackEvents"]
        return "\n".join(item.get("ResourceStatusReason", "") for item in found)

    def _call(self, resources: dict[str, Any], sections: dict[str, Any]) -> dict[str, Any]:
        options = {key: sections.pop(key) for key in list(sections) if key in _OPTIONS}
        body = json.dumps({"Resources": resources, **sections})
        return {"StackName": self.name, "TemplateBody": body, "Capabilities": CAPABILITIES, **options}


_OPTIONS = {
    *("Capabilities", "DeploymentConfig", "DisableRollback", "NotificationARNs", "OnFailure"),
    *("StackPolicyBody", "Tags"),
}


def resource(kind: str, depends_on: str | None = None, **properties: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"Type": kind, "Properties": properties}
    return body | ({"DependsOn": depends_on} if depends_on else {})


def parameter(value: Any = "v", **properties: Any) -> dict[str, Any]:
    return resource("AWS::SSM::Parameter", Type="String", Value=value, **properties)


def broken(depends_on: str | None = None) -> dict[str, Any]:
    """Return a resource that KMS rejects."""
    return resource("AWS::KMS::Alias", depends_on, AliasName="alias/broken", TargetKeyId="no-such-key")
