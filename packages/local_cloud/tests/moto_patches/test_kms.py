"""Every KMS operation accepts the forms of a key that it accepts on AWS, and rejects the others by name."""

from collections.abc import Callable
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError

from tritonstack_local.moto_patches.kms import KEY_OPERATIONS

SYMMETRIC, SIGNING, MAC = "symmetric", "signing", "mac"
FORMS: dict[str, Callable[[dict[str, str]], str]] = {
    "id": lambda key: key["KeyId"],
    "arn": lambda key: key["Arn"],
    "alias": lambda key: key["Alias"],
    "alias arn": lambda key: key["Arn"].replace(f"key/{key['KeyId']}", key["Alias"]),
}
POLICY = '{"Version": "2012-10-17", "Statement": []}'
CALLS: dict[str, dict[str, Any]] = {
    "describe_key": {},
    "enable_key": {},
    "disable_key": {},
    "schedule_key_deletion": {"PendingWindowInDays": 7},
    "cancel_key_deletion": {},
    "enable_key_rotation": {},
    "disable_key_rotation": {},
    "get_key_rotation_status": {},
    "rotate_key_on_demand": {},
    "list_key_rotations": {},
    "put_key_policy": {"PolicyName": "default", "Policy": POLICY},
    "get_key_policy": {"PolicyName": "default"},
    "list_key_policies": {},
    "update_key_description": {"Description": "other"},
    "tag_resource": {"Tags": [{"TagKey": "a", "TagValue": "b"}]},
    "untag_resource": {"TagKeys": ["a"]},
    "list_resource_tags": {},
    "list_aliases": {},
    "create_grant": {"GranteePrincipal": "arn:aws:iam::111111111111:role/r", "Operations": ["Decrypt"]},
    "list_grants": {},
    "encrypt": {"Plaintext": b"x"},
    "generate_data_key": {"KeySpec": "AES_256"},
    "generate_data_key_without_plaintext": {"KeySpec": "AES_256"},
    "sign": {"Message": b"x", "SigningAlgorithm": "ECDSA_SHA_256"},
    "get_public_key": {},
    "generate_mac": {"Message": b"x", "MacAlgorithm": "HMAC_SHA_256"},
}
"""Operations that need only a key, with their other parameters."""
ELSEWHERE = {"decrypt", "replicate_key", "retire_grant", "revoke_grant", "verify", "verify_mac"}
"""Operations on a result of another one; they have their own tests."""
KINDS = {"sign": SIGNING, "get_public_key": SIGNING, "generate_mac": MAC}
SETTINGS: dict[str, dict[str, str]] = {
    SYMMETRIC: {},
    SIGNING: {"KeySpec": "ECC_NIST_P256", "KeyUsage": "SIGN_VERIFY"},
    MAC: {"KeySpec": "HMAC_256", "KeyUsage": "GENERATE_VERIFY_MAC"},
}
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def kms(account):
    return account.client("kms")


def new_key(kms: Any, kind: str = SYMMETRIC, **settings: Any) -> dict[str, str]:
    made = kms.create_key(**SETTINGS[kind], **settings)["KeyMetadata"]
    kms.create_alias(AliasName=f"alias/of-{kind}", TargetKeyId=made["Arn"])
    return {"KeyId": made["KeyId"], "Arn": made["Arn"], "Alias": f"alias/of-{kind}"}


def error_code(call: Callable[..., Any], **parameters: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    return str(caught.value.response["Error"]["Code"])


@pytest.mark.parametrize("operation", CALLS)
def test_each_form_of_a_key_is_accepted_or_not_found(kms, operation):
    key, call = new_key(kms, KINDS.get(operation, SYMMETRIC)), getattr(kms, operation)
    for form, spelled in FORMS.items():
        given = {"KeyId": spelled(key), **CALLS[operation]}
        if form.startswith("alias") and operation in KEY_OPERATIONS:
            assert error_code(call, **given) == "NotFoundException"
        else:
            assert call(**given).get("KeyId", key["Arn"]) in (key["Arn"], key["KeyId"])


def test_an_unknown_key_is_not_found(kms):
    arn = new_key(kms)["Arn"].rpartition("/")[0]
    key = {"KeyId": UNKNOWN, "Arn": f"{arn}/{UNKNOWN}", "Alias": "alias/unknown"}
    for operation, others in CALLS.items():
        for spelled in FORMS.values():
            code = error_code(getattr(kms, operation), KeyId=spelled(key), **others)
            assert (operation, code) == (operation, "NotFoundException")


@pytest.mark.parametrize("form", ["id", "arn"])
def test_a_deletion_changes_the_key_and_returns_its_arn(kms, form):
    key = new_key(kms)
    given = {"KeyId": FORMS[form](key)}
    assert kms.schedule_key_deletion(**given)["KeyId"] == key["Arn"]
    assert kms.describe_key(**given)["KeyMetadata"]["KeyState"] == "PendingDeletion"
    assert kms.cancel_key_deletion(**given)["KeyId"] == key["Arn"]
    assert kms.describe_key(**given)["KeyMetadata"]["KeyState"] == "Disabled"


@pytest.mark.parametrize("form", FORMS)
def test_encryption_and_signatures_of_a_key_are_reversed_and_verified(kms, form):
    keys = {kind: FORMS[form](new_key(kms, kind)) for kind in SETTINGS}
    sealed = kms.encrypt(KeyId=keys[SYMMETRIC], Plaintext=b"x")["CiphertextBlob"]
    sealed = kms.re_encrypt(CiphertextBlob=sealed, DestinationKeyId=keys[SYMMETRIC])["CiphertextBlob"]
    assert kms.decrypt(KeyId=keys[SYMMETRIC], CiphertextBlob=sealed)["Plaintext"] == b"x"
    signed = {"KeyId": keys[SIGNING], "Message": b"x", "SigningAlgorithm": "ECDSA_SHA_256"}
    assert kms.verify(**signed, Signature=kms.sign(**signed)["Signature"])["SignatureValid"]
    coded = {"KeyId": keys[MAC], "Message": b"x", "MacAlgorithm": "HMAC_SHA_256"}
    answer = kms.verify_mac(**coded, Mac=kms.generate_mac(**coded)["Mac"])
    assert answer["MacValid"]
    assert answer["KeyId"].startswith("arn:aws:kms:")


def test_every_operation_with_a_key_is_tested():
    model = botocore.session.get_session().get_service_model("kms")
    named = {
        botocore.xform_name(name)
        for name in model.operation_names
        if (shape := model.operation_model(name).input_shape) and "KeyId" in shape.members
    }
    assert named >= {*CALLS, *ELSEWHERE, *KEY_OPERATIONS}
    assert {*KEY_OPERATIONS} <= {*CALLS, *ELSEWHERE}
