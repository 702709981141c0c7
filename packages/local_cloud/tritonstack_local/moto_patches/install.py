"""Install the corrections of moto, each with its reason; longer ones have their own modules."""

from __future__ import annotations

import functools
from typing import Any

import moto.iam.models as iam_models
from moto.core.base_backend import AccountSpecificBackend
from moto.core.common_models import BaseModel
from moto.iam.access_control import PermissionResult
from moto.iam.policy_validation import IAMTrustPolicyDocumentValidator
from moto.iam.responses import IamResponse
from moto.s3.models import FakeBucket
from moto.sns.models import Subscription
from moto.sts.models import STSBackend
from moto.sts.responses import TokenResponse

from tritonstack_local.access.accounts import in_all_accounts, within_account
from tritonstack_local.moto_patches import correct, iam, images_and_quotas, s3
from tritonstack_local.moto_patches.iam import (
    add_client_id,
    assume_role,
    policies_of_aws,
    reject_identity,
    remove_client_id,
)
from tritonstack_local.state import pickling


def apply() -> None:
    """Correct moto. The account of a request is in the header that the guard sets."""
    correct(*_CORRECTIONS)


def _new(kind: type, *_: Any, **__: Any) -> Any:
    return object.__new__(kind)


_CORRECTIONS: tuple[tuple[Any, str, Any], ...] = (
    # moto keeps every object that it ever makes, for a reset that never comes.
    (BaseModel, "__new__", staticmethod(_new)),
    # S3 bodies are stored in files.
    *pickling.CORRECTIONS,
    (AccountSpecificBackend, "__getitem__", within_account(AccountSpecificBackend.__getitem__)),
    *iam.CORRECTIONS,
    (STSBackend, "assume_role", assume_role),
    (STSBackend, "assume_role_with_web_identity", reject_identity),
    # moto believes every assertion.
    (STSBackend, "assume_role_with_saml", reject_identity),
    # moto stores the notification keys of all accounts in one account.
    (Subscription, "get_post_data", in_all_accounts(Subscription.get_post_data)),
    # These use all accounts; AssumeRole evaluates the role's trust policy.
    (TokenResponse, "assume_role", in_all_accounts(TokenResponse.assume_role)),
    (STSBackend, "get_access_key_info", in_all_accounts(STSBackend.get_access_key_info)),
    (
        iam_models.IAMBackend,
        "get_all_access_keys_for_all_users",
        in_all_accounts(iam_models.IAMBackend.get_all_access_keys_for_all_users),
    ),
    (IamResponse, "add_client_id_to_open_id_connect_provider", add_client_id),
    (IamResponse, "remove_client_id_from_open_id_connect_provider", remove_client_id),
    # moto parses the AWS managed policies again per account, which takes a third of a second.
    (iam_models.IAMBackend, "_init_aws_policies", policies_of_aws),
    # moto enforces bucket policies but ignores their conditions: a TLS-only policy would deny everything.
    (FakeBucket, "get_permission", lambda _bucket, _action, _resource: PermissionResult.NEUTRAL),
    # What a deployment asks of AWS before it creates anything.
    *images_and_quotas.CORRECTIONS,
    # Concurrent reads and writes of objects, and their checksums.
    *s3.CORRECTIONS,
    # moto asks for the log bucket's permissions when logging is set up; AWS does so when it delivers. The CDK
    # grants them in a policy that is made later.
    (FakeBucket, "_log_permissions_enabled_policy", lambda _bucket, **_: True),
    # moto requires a Version in updated trust policies; AWS does not, and the CDK's roles have none.
    (IAMTrustPolicyDocumentValidator, "_validate_version", lambda _validator: None),
)


@functools.cache
def correct_ec2() -> None:
    """Correct moto's EC2 on its first request, because importing it is slow.

    moto drops the routes when a gateway endpoint changes its route table, and then cannot delete it.
    """
    from moto.ec2.models.vpcs import VPCBackend  # noqa: PLC0415

    move = VPCBackend.modify_vpc_endpoint

    def modify_vpc_endpoint(
        backend: Any, vpc_id: str, policy_doc: str, *lists: Any, **named_lists: list[str] | None
    ) -> None:
        move(backend, vpc_id, policy_doc, *lists, **named_lists)
        endpoint = backend.vpc_end_points[vpc_id]
        prefix_list = endpoint.destination_prefix_list_id
        if prefix_list is None:
            return
        for table_id, table in backend.route_tables.items():
            routed = any(route.gateway and route.gateway.id == vpc_id for route in table.routes)
            if routed and table_id not in endpoint.route_table_ids:
                backend.delete_route(table_id, prefix_list)
            elif not routed and table_id in endpoint.route_table_ids:
                backend.create_route(
                    table_id, None, gateway_id=vpc_id, destination_prefix_list_id=prefix_list
                )

    correct((VPCBackend, "modify_vpc_endpoint", modify_vpc_endpoint))
