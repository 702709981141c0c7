"""What stands for a while, wherever this project's environments live, and in which words it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from botocore.exceptions import BotoCoreError, ClientError

from cli.context import Context
from cli.standing import Ground
from operations.aws import Cloud, CloudAccessError
from operations.destruction.reaping import Leased, leased

_WORDS: Mapping[str, str] = {
    "expired": "expired at {expires}",
    "lives": "lives until {expires}",
    "protected": "is protected, and stays",
    "unreadable": "has an `expires` tag that is no time, and stays",
}


@dataclass(frozen=True)
class Case:
    """One environment with an expiry, and where it is."""

    cloud: Cloud
    lease: Leased


@dataclass
class Cases:
    """All that was found."""

    cases: list[Case] = field(default_factory=list)
    unreachable: dict[Ground, str] = field(default_factory=dict)
    """Places that did not tell, and why."""
    refused: bool = False
    """Whether one of them can be reached, and refused what it has to allow."""

    @property
    def gaps(self) -> list[str]:
        """The places that did not tell, in words."""
        return [f"{_where(ground)}: {why}" for ground, why in self.unreachable.items()]


def look_for_leased(state: Context, places: Sequence[Ground], *, now: datetime) -> Cases:
    """What carries an expiry in all places."""
    found = Cases()
    for ground in places:
        try:
            cloud = state.cloud_at(ground.account, ground.region, what=f"what expires in {_where(ground)}")
            found.cases += [Case(cloud, item) for item in leased(cloud, prefix=ground.prefix, now=now)]
        except CloudAccessError as error:
            found.unreachable[ground] = error.message
        except (ClientError, BotoCoreError) as error:
            found.unreachable[ground] = str(error)
            found.refused = True
    return found


def lease_words(lease: Leased) -> str:
    """How long it lives, and whose it is."""
    return f"{lease.base} of {lease.owner} {_WORDS[lease.verdict].format(expires=lease.expires)}"


def _where(ground: Ground) -> str:
    return f"{ground.account} {ground.region}"
