"""Install the corrections of moto, each with its reason; longer ones have their own modules."""

from __future__ import annotations

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
from tritonstack_local.moto_patches import ecr, iam, s3, service_quotas
from tritonstack_local.moto_patches.iam import (
    add_client_id,
    assume_role,
    policies_of_aws,
    reject_identity,
    remove_client_id,
)
from tritonstack_local.moto_patches.patching import correct
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
    *ecr.CORRECTIONS,
    *service_quotas.CORRECTIONS,
    # Concurrent reads and writes of objects, and their checksums.
    *s3.CORRECTIONS,
    # moto asks for the log bucket's permissions when logging is set up; AWS does so when it delivers. The CDK
    # grants them in a policy that is made later.
    (FakeBucket, "_log_permissions_enabled_policy", lambda _bucket, **_: True),
    # moto requires a Version in updated trust policies; AWS does not, and the CDK's roles have none.
    (IAMTrustPolicyDocumentValidator, "_validate_version", lambda _validator: None),
)
