"""What stands for a while, wherever this project's environments live, and in which words it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.operations.aws import Cloud, CloudAccessError
from tritonstack.operations.destruction.reaping import Leased, leased
from tritonstack.workflows.environments.deployed import Ground
from tritonstack.workflows.session import Session

_AT_ONCE = 4
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


@dataclass(frozen=True)
class Cases:
    """All that was found."""

    cases: tuple[Case, ...] = ()
    unreachable: Mapping[Ground, str] = field(default_factory=dict)
    """Places that did not tell, and why."""
    refused: bool = False
    """Whether one of them can be reached, and refused what it has to allow."""

    @property
    def gaps(self) -> list[str]:
        """The places that did not tell, in words."""
        return [f"{_where(ground)}: {why}" for ground, why in self.unreachable.items()]


def look_for_leased(session: Session, places: Sequence[Ground], *, now: datetime) -> Cases:
    """What carries an expiry in all places, asked side by side."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda ground: _look(session, ground, now), places))
    return Cases(
        tuple(case for one in found for case in one.cases),
        {ground: why for one in found for ground, why in one.unreachable.items()},
        any(one.refused for one in found),
    )


def _look(session: Session, ground: Ground, now: datetime) -> Cases:
    try:
        cloud = session.cloud_at(ground.account, ground.region, what=f"what expires in {_where(ground)}")
        held = leased(cloud, prefix=ground.prefix, now=now)
    except CloudAccessError as error:
        return Cases(unreachable={ground: error.message})
    except (ClientError, BotoCoreError) as error:
        return Cases(unreachable={ground: str(error)}, refused=True)
    return Cases(tuple(Case(cloud, lease) for lease in held))


def lease_words(lease: Leased) -> str:
    """How long it lives, and whose it is."""
    return f"{lease.base} of {lease.owner} {_WORDS[lease.verdict].format(expires=lease.expires)}"


def _where(ground: Ground) -> str:
    return f"{ground.account} {ground.region}"
