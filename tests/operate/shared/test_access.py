"""Credentials of two accounts: which ones are used, and the error if none works."""

from typing import Any

import botocore.client
import pytest
from botocore.exceptions import ClientError

from tests.moto_aws import simulated_aws
from tests.operate.two_accounts import DEV_ACCOUNT, PROD_ACCOUNT, add_reader, keys_of
from tests.projects import edit
from tritonstack.files.loading import load_workspace
from tritonstack.operate.shared.aws import BorrowedCloud, Cloud, CloudAccessError, readable_cloud

READER = "tritonstack-delivery-dev-promotion-reader"
HERE = Cloud(PROD_ACCOUNT, "eu-west-1", {})


@pytest.fixture
def dev(project, tmp_path, monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    config = tmp_path / "aws-config"
    config.write_text("[profile team]\naws_access_key_id = x\naws_secret_access_key = y\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    with simulated_aws():
        add_reader(Cloud(DEV_ACCOUNT, "eu-west-1", keys_of(DEV_ACCOUNT)))
        for name, value in keys_of(PROD_ACCOUNT).items():
            monkeypatch.setenv(name, value)
        yield load_workspace(project, "dev").spec


def test_the_source_is_read_by_its_role_for_readers(dev):
    cloud = readable_cloud(dev, profile=None, at_hand=HERE)
    assert isinstance(cloud, BorrowedCloud)
    assert cloud.role_arn == f"arn:aws:iam::{DEV_ACCOUNT}:role/{READER}"
    identity = cloud.client("sts").get_caller_identity()
    assert identity["Account"] == DEV_ACCOUNT
    assert f"assumed-role/{READER}/" in identity["Arn"]


def test_credentials_of_the_source_account_are_used_directly(project, dev):
    edit(project.environment_file("dev"), DEV_ACCOUNT, PROD_ACCOUNT)
    spec = load_workspace(project, "dev").spec
    assert dev.account == DEV_ACCOUNT
    cloud = readable_cloud(spec, profile=None, at_hand=HERE)
    assert not isinstance(cloud, BorrowedCloud)
    assert cloud.account == PROD_ACCOUNT


def test_an_untrusting_role_is_reported_with_account_and_caller(dev, monkeypatch):
    real = botocore.client.BaseClient._make_api_call

    def reject(self: Any, name: str, parameters: Any) -> Any:
        if name == "AssumeRole":
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "not authorized"}}, name)
        return real(self, name, parameters)

    monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", reject)
    with pytest.raises(CloudAccessError) as caught:
        readable_cloud(dev, profile=None, at_hand=HERE)
    for value in (f"account {DEV_ACCOUNT}", f"of account {PROD_ACCOUNT}", READER, "--from-profile"):
        assert value in str(caught.value)


def test_a_profile_takes_precedence_over_environment_keys(dev, monkeypatch):
    with pytest.raises(CloudAccessError, match="profile 'team' belong"):
        readable_cloud(dev, profile="team", at_hand=HERE)
    cloud = Cloud(PROD_ACCOUNT, "eu-west-1", {"AWS_PROFILE": "team"})
    monkeypatch.setenv("AWS_SESSION_TOKEN", "old")
    passed_on = cloud.process_environment()
    assert passed_on["AWS_PROFILE"] == "team"
    identity = cloud.client("sts").get_caller_identity()
    assert identity["Account"] != PROD_ACCOUNT, "the keys of the environment were used"
    assert not {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} & set(passed_on)
