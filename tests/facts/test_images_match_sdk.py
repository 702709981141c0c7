"""The image table compared with the SageMaker SDK's, for every region, release, and processor."""

import json
from pathlib import Path

import pytest

from tritonstack.base.errors import UsageError
from tritonstack.facts.images import ACCOUNTS, REPOSITORY, image_uri
from tritonstack.facts.releases import RELEASES

# The SDK takes seconds to load, and its functions seconds to be asked for everything.
pytestmark = pytest.mark.e2e

# AWS's image list has these (test_tables.py), the SDK's table does not.
ONLY_IN_CATALOG = {"26.03", "26.04"}
# The catalog serves the commercial partition; the SDK lists these too, under another DNS suffix.
OTHER_PARTITIONS = {"cn-north-1", "cn-northwest-1"}


def sdk():
    from sagemaker.core import image_uris

    return image_uris


def sdk_table():
    """Return every release with its regions, from the file that the SDK's `retrieve` reads."""
    file = Path(sdk().__file__).parent / "image_uri_config" / "sagemaker-tritonserver.json"
    return {
        release: set(entry["registries"]) - OTHER_PARTITIONS
        for release, entry in json.loads(file.read_text())["versions"].items()
    }


def test_releases_match_except_the_listed_ones():
    assert set(RELEASES) - set(sdk_table()) == ONLY_IN_CATALOG
    assert set(sdk_table()) <= set(RELEASES)


def test_the_default_release_is_in_the_sdk_table_in_every_region():
    assert sdk_table()[max(RELEASES)] == set(ACCOUNTS)


def test_regions_match():
    assert set(ACCOUNTS) == set().union(*sdk_table().values())


@pytest.mark.parametrize("release", sorted(set(RELEASES) - ONLY_IN_CATALOG))
@pytest.mark.parametrize("region", sorted(ACCOUNTS))
def test_uris_match(release, region):
    if region not in sdk_table()[release]:
        with pytest.raises(UsageError):
            image_uri(region=region, release=release, gpu=True)
        return
    for gpu, instance_type in ((True, "ml.g5.xlarge"), (False, "ml.c5.xlarge")):
        of_sdk = sdk().retrieve(REPOSITORY, region=region, version=release, instance_type=instance_type)
        assert image_uri(region=region, release=release, gpu=gpu) == of_sdk
