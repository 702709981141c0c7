"""Published vulnerabilities of Triton releases."""

import itertools
import re

from tritonstack.facts.advisories.published import advisories_of
from tritonstack.facts.advisories.table import ADVISORIES
from tritonstack.facts.releases import RELEASES


def test_rows_are_complete_and_unique():
    assert len({cve for cve, _, _ in ADVISORIES}) == len(ADVISORIES) > 50
    for cve, fixed_in, score in ADVISORIES:
        assert re.fullmatch(r"CVE-20\d\d-\d{4,}", cve)
        assert re.fullmatch(r"\d\d\.(0[1-9]|1[0-2])", fixed_in)
        assert 0 < score <= 10


def test_later_releases_have_a_part_of_the_vulnerabilities():
    releases = sorted(RELEASES)
    assert len(releases) > 5
    for earlier, later in itertools.pairwise(releases):
        assert {one.cve for one in advisories_of(later)} <= {one.cve for one in advisories_of(earlier)}
