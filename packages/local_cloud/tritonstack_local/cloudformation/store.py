"""Store all stacks by account and region."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code
from tritonstack_local.cloudformation.errors import AlreadyExistsError, CloudFormationError, TemplateError
from tritonstack_local.cloudformation.records import Stack
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.state.pickling import dumps
from tritonstack_local.state.writer import OnChange, not_persisted


class StackStore:
    """All stacks, including deleted ones, which can still be described by id."""

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self.on_change: OnChange = not_persisted
        self._stacks: dict[Scope, dict[str, Stack]] = {}
        self._by_id: dict[str, Stack] = {}
        self._lock = threading.RLock()

    def add(self, scope: Scope, stack: Stack) -> None:
        """Add a new stack unless its name is in use."""
        with self._lock:
            if self.find(scope, stack.identity.name) is not None:
                raise AlreadyExistsError(f"Stack [{stack.identity.name}] already exists")
            self._add(scope, stack)
        stack.on_change()

    def piece_keys(self) -> list[str]:
        """List the stacks for the state writer."""
        return list(self._by_id)

    def dump(self, key: str) -> bytes | None:
        """Pickle a stack for the state writer."""
        stack = self._by_id[key]
        with stack.lock:
            return dumps(stack)

    def load(self, key: str, value: Stack) -> None:
        """Restore a stack from the saved state."""
        scope = Scope(value.identity.account, value.identity.region)
        for change_set in value.change_sets.values():
            change_set.proposal.evaluation.dependencies = AccountLookups(self, scope)
        self._add(scope, value)

    def _add(self, scope: Scope, stack: Stack) -> None:
        stack_id = stack.identity.stack_id
        self._stacks.setdefault(scope, {})[stack_id] = self._by_id[stack_id] = stack
        stack.on_change = self.on_change

    def stacks(self, scope: Scope) -> list[Stack]:
        """Return all stacks of a scope, newest first."""
        with self._lock:
            return list(reversed(self._stacks.get(scope, {}).values()))

    def everywhere(self) -> Iterator[Stack]:
        """Yield every stack of this cloud that is not deleted."""
        with self._lock:
            scopes = list(self._stacks)
        for scope in scopes:
            yield from self.living(scope)

    def living(self, scope: Scope) -> list[Stack]:
        """Return the stacks of a scope that are not deleted."""
        return [stack for stack in self.stacks(scope) if stack.deleted is None]

    def find(self, scope: Scope, name_or_id: str) -> Stack | None:
        """Return an existing stack by name, or any stack by id."""
        for stack in self.stacks(scope):
            if stack.identity.stack_id == name_or_id or (
                stack.deleted is None and stack.identity.name == name_or_id
            ):
                return stack
        return None

    def get(self, scope: Scope, name_or_id: str) -> Stack:
        """Return a stack, or raise CloudFormation's error."""
        stack = self.find(scope, name_or_id)
        if stack is None:
            raise CloudFormationError(f"Stack with id {name_or_id} does not exist")
        return stack


@dataclass(frozen=True)
class AccountLookups:
    """Lookups of templates in one scope."""

    store: StackStore
    scope: Scope

    def availability_zones(self, region: str) -> list[str]:
        """Return the availability zones of a region."""
        ec2 = self.store.clients.client("ec2", Scope(self.scope.account, region))
        return [zone["ZoneName"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]]

    def ssm_value(self, name: str) -> str:
        """Return the value of an SSM parameter."""
        ssm = self.store.clients.client("ssm", self.scope)
        try:
            return str(ssm.get_parameter(Name=name)["Parameter"]["Value"])
        except ClientError as error:
            if aws_error_code(error) != "ParameterNotFound":
                raise
            raise TemplateError(
                f"Unable to fetch parameters [{name}] from parameter store for this account."
            ) from error
