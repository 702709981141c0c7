"""Create the private network of an environment that requests one."""

from __future__ import annotations

from constructs import Construct

from stacks.environment_stack import EnvironmentStack
from tritonstack.base import naming
from tritonstack.constructs.private_network import NetworkGuards, PrivateNetwork, flow_log, service_access
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.environment.network import NewVpc


class NetworkStack(EnvironmentStack):
    """The network stack; deployed after the foundation, whose key it uses, and before the endpoints."""

    def __init__(self, scope: Construct, *, environment: EnvironmentSpec, vpc: NewVpc) -> None:
        base = environment.base
        super().__init__(
            scope,
            stack_name=naming.network_stack_name(base),
            description=f"tritonstack: private network of {environment.name}",
            environment=environment,
        )
        zones = vpc.availability_zone_ids or vpc.availability_zones
        network = PrivateNetwork(self, "Network", name=base, cidr=vpc.cidr, zones=zones)
        guards = NetworkGuards(self, "Guards", name=base, vpc_id=network.vpc_id)
        service_access(
            self,
            "Services",
            network=network,
            buckets=[environment.artifact_bucket, environment.data_bucket],
            security_group_id=guards.services_group_id,
        )
        flow_log(
            self,
            "Traffic",
            name=naming.flow_log_group(base),
            vpc_id=network.vpc_id,
            key_arn=self.shared_value("KeyArn", name=naming.KEY_PARAMETER),
            removal=self.removal,
        )
        self.share(
            "SubnetsParameter",
            name=naming.SUBNETS_PARAMETER,
            value=network.subnet_ids,
            description=f"The private subnets of the endpoints of {base}",
        )
        self.share(
            "SecurityGroupsParameter",
            name=naming.SECURITY_GROUPS_PARAMETER,
            value=[guards.endpoints_group_id],
            description=f"The security group of the endpoints of {base}",
        )
        self.output("VpcId", value=network.vpc_id, description="Id of the endpoints' VPC")
