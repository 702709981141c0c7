"""Install the corrections of moto, each with its reason; longer ones have their own modules."""

from __future__ import annotations

from typing import Any

import moto.iam.models as iam_models
from moto.core.base_backend import AccountSpecificBackend
from moto.core.common_models import BaseModel
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.iam.access_control import PermissionResult
from moto.iam.policy_validation import IAMTrustPolicyDocumentValidator
from moto.iam.responses import IamResponse
from moto.s3.models import FakeBucket
from moto.sns.models import Subscription
from moto.sts.models import STSBackend
from moto.sts.responses import TokenResponse

from tritonstack_local.access.account_isolation import in_all_accounts, within_account
from tritonstack_local.moto_patches import ecr, iam, s3, service_quotas
from tritonstack_local.moto_patches.iam import (
    add_client_id,
    assume_role,
    policies_of_aws,
    reject_identity,
    remove_client_id,
)
from tritonstack_local.moto_patches.patching import correct
from tritonstack_local.signatures.keys import account_in_key
from tritonstack_local.state import moto_backends

_default_account = DEFAULT_ACCOUNT_ID


def apply(*, account_id: str) -> None:
    """Correct moto; callers act in `account_id` unless their key belongs to another account."""
    global _default_account  # noqa: PLW0603 - moto's own state is global too
    _default_account = account_id
    correct(*_CORRECTIONS)


def account_of(access_key: str) -> str:
    """Return the account that an access key belongs to."""
    named = account_in_key(access_key)
    if named is not None:
        return named
    for account_id, partitions in list(iam_models.iam_backends.items()):
        # Looked up without creating a backend, which would load all AWS managed policies.
        backend = partitions.get("aws")
        if backend is not None and access_key in backend.access_keys:
            return account_id
    return _default_account


def _new(kind: type, *_: Any, **__: Any) -> Any:
    return object.__new__(kind)


_CORRECTIONS: tuple[tuple[Any, str, Any], ...] = (
    # moto keeps every object that it ever makes, for a reset that never comes.
    (BaseModel, "__new__", staticmethod(_new)),
    # S3 bodies are stored in files.
    *moto_backends.CORRECTIONS,
    (AccountSpecificBackend, "__getitem__", within_account(AccountSpecificBackend.__getitem__)),
    # moto puts unknown keys into the account 123456789012, knows no key that names an account, and looks an
    # issued one up in every partition of every account, all of which it makes for that.
    (iam_models, "get_account_id_from", account_of),
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
