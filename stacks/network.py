"""The network of an environment whose file asks for one of its own."""

from __future__ import annotations

from constructs import Construct

from stacks.environment_stack import EnvironmentStack
from stacks.removal import removal_policy
from tritonstack.base import naming
from tritonstack.constructs.data.shared_value import SharedValue
from tritonstack.constructs.network.flow_log import FlowLog
from tritonstack.constructs.network.network_guards import NetworkGuards
from tritonstack.constructs.network.private_network import PrivateNetwork
from tritonstack.constructs.network.service_access import ServiceAccess
from tritonstack.spec.environments.environment import EnvironmentSpec
from tritonstack.spec.environments.network import NewVpc


class NetworkStack(EnvironmentStack):
    """Deployed after the foundation, whose key encrypts its record, and before the endpoints in it."""

    def __init__(self, scope: Construct, *, environment: EnvironmentSpec, vpc: NewVpc) -> None:
        base = environment.base
        super().__init__(
            scope,
            stack_name=naming.network_stack_name(base),
            description=f"tritonstack: the network of {environment.name}",
            environment=environment,
        )
        network = PrivateNetwork(self, "Network", name=base, cidr=vpc.cidr, zones=vpc.availability_zones)
        guards = NetworkGuards(self, "Guards", name=base, vpc_id=network.vpc_id)
        ServiceAccess(
            self,
            "Services",
            network=network,
            buckets=[environment.artifact_bucket, environment.data_bucket],
            security_group_id=guards.services_group_id,
        )
        FlowLog(
            self,
            "Traffic",
            name=naming.flow_log_group(base),
            vpc_id=network.vpc_id,
            key_arn=self.shared_value("KeyArn", what=naming.KEY_PARAMETER),
            removal=removal_policy(environment),
        )
        SharedValue(
            self,
            "SubnetsParameter",
            name=naming.parameter_name(base, naming.SUBNETS_PARAMETER),
            value=network.subnet_ids,
            description=f"The private subnets that the endpoints of {base} stand in",
        )
        SharedValue(
            self,
            "SecurityGroupsParameter",
            name=naming.parameter_name(base, naming.SECURITY_GROUPS_PARAMETER),
            value=[guards.endpoints_group_id],
            description=f"What the endpoints of {base} may reach",
        )
        self.output("VpcId", value=network.vpc_id, description="The network that endpoints stand in")
