"""Correct moto's EC2; a separate module because importing it is slow.

moto drops the routes when a gateway endpoint changes its route table, and then cannot delete it.
"""

from __future__ import annotations

from typing import Any

from moto.ec2.models.vpcs import VPCBackend

from tritonstack_local.moto_patches.patching import correct

_move_vpc_endpoint = VPCBackend.modify_vpc_endpoint


def apply() -> None:
    """Correct it."""
    correct((VPCBackend, "modify_vpc_endpoint", _modify_vpc_endpoint))


def _modify_vpc_endpoint(
    backend: Any, vpc_id: str, policy_doc: str, *lists: Any, **named_lists: list[str] | None
) -> None:
    _move_vpc_endpoint(backend, vpc_id, policy_doc, *lists, **named_lists)
    endpoint = backend.vpc_end_points[vpc_id]
    prefix_list = endpoint.destination_prefix_list_id
    if prefix_list is None:
        return
    for table_id, table in backend.route_tables.items():
        routed = any(route.gateway and route.gateway.id == vpc_id for route in table.routes)
        if routed and table_id not in endpoint.route_table_ids:
            backend.delete_route(table_id, prefix_list)
        elif not routed and table_id in endpoint.route_table_ids:
            backend.create_route(table_id, None, gateway_id=vpc_id, destination_prefix_list_id=prefix_list)
