"""Corrections of moto can be reverted; services in memory take one request at a time."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from moto.ec2.models.security_groups import SecurityGroup

from tritonstack_local.moto_patches import correct, uncorrected


class Library:
    def told(self):
        return "as it comes"


def test_corrections_can_be_reverted_temporarily():
    correct((Library, "told", lambda _: "corrected"), (Library, "more", lambda _: "added"))
    correct((Library, "told", lambda _: "corrected again"))
    assert (Library().told(), Library().more()) == ("corrected again", "added")
    with uncorrected():
        assert Library().told() == "as it comes"
        assert not hasattr(Library, "more")
    assert (Library().told(), Library().more()) == ("corrected again", "added")


GROUPS = 16


@pytest.fixture
def slow_searches(monkeypatch):
    """Delay each look at a security group's name, so that searches and additions overlap."""

    def name(group: SecurityGroup) -> str:
        time.sleep(0.002)
        return vars(group)["name"]

    named = property(name, lambda group, value: vars(group).update(name=value))
    monkeypatch.setattr(SecurityGroup, "name", named, raising=False)


@pytest.mark.usefixtures("slow_searches")
def test_concurrent_changes_do_not_fail(account):
    ec2 = account.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.3.0.0/16")["Vpc"]["VpcId"]

    def create(number: int) -> str:
        made = ec2.create_security_group(GroupName=f"group-{number}", Description="for the test", VpcId=vpc)
        return str(made["GroupId"])

    with ThreadPoolExecutor(GROUPS) as pool:
        made = list(pool.map(create, range(GROUPS)))
    assert len(set(made)) == GROUPS
