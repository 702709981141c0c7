"""`delivery.yaml`: how changes reach the environments: by which branch, in which order, by whose hands.

One file for the whole project, beside `cdk.json`. From it come the roles that workflows take on
(`cdk deploy -c delivery=<environment>`), the order in which they deploy, and the pipeline of the road that
stays inside AWS (`cdk deploy -c pipeline=<branch>`).
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base.documents import Document, Fault, Record, check_distinct, load_document, refuse
from tritonstack.base.errors import UsageError
from tritonstack.base.naming import Name
from tritonstack.base.paths import Project
from tritonstack.reference.region_features import ConfirmedFeatures
from tritonstack.spec.environments.environment import AccountId, PolicyName, RegionName
from tritonstack.spec.environments.expiry import Lifetime

_OWNER_AND_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})/[A-Za-z0-9._-]{1,100}")
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")
_CONNECTION = re.compile(
    r"arn:aws:(?:codeconnections|codestar-connections):[a-z0-9-]+:[0-9]{12}:connection/[a-z0-9-]+"
)


def _check_repository(text: str) -> str:
    if not _OWNER_AND_NAME.fullmatch(text):
        raise ValueError(f"{text!r} is not a repository on GitHub; write owner/name")
    return text


def _check_branch(text: str) -> str:
    # What trusts the branch compares it letter by letter, so no pattern may stand here.
    if not _BRANCH.fullmatch(text) or "//" in text or ".." in text:
        raise ValueError(f"{text!r} is not the name of a branch; write it in full, without refs/heads/")
    return text


def _check_connection(text: str) -> str:
    if not _CONNECTION.fullmatch(text):
        raise ValueError(
            f"{text!r} is not the ARN of a connection; copy it from CodeConnections: "
            "arn:aws:codeconnections:<region>:<account>:connection/<id>"
        )
    return text


class RepositoryIds(Record):
    """GitHub's numbers of the repository and its owner: they stand in the tokens of its workflows."""

    owner: Annotated[str, Field(pattern=r"^[0-9]{1,20}$")]
    repository: Annotated[str, Field(pattern=r"^[0-9]{1,20}$")]


class DeliveredEnvironment(Record):
    """An environment on the road, in its turn."""

    name: Name
    approval: bool = False
    """Whether a person says yes before each deploy: on GitHub a protection rule, in the pipeline a step."""


class PreviewDelivery(Record):
    """The environment that each pull request gets for itself."""

    template: Name
    """environments/<template>.template.yaml"""
    environment: Name
    """The delivered environment in whose account and region previews stand, and whose lock they run."""
    ttl: Lifetime = "8h"
    """How long one stands unless its pull request is closed before."""
    name_prefix: Name = "pr"
    """What the name of each begins with, before a hyphen and the number of its pull request."""


class BucketSource(Record):
    """The repository as an archive in a bucket, put there by whatever holds it."""

    bucket: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
    key: Annotated[str, Field(pattern=r"^[A-Za-z0-9._/-]{1,200}\.zip$")] = "source.zip"


class PipelineDelivery(Record):
    """The road that stays inside AWS: a pipeline in an account for tools."""

    account: AccountId
    region: RegionName
    region_features: ConfirmedFeatures = ()
    """Features that the region has, although AWS's published lists do not say so (docs/regions.md)."""
    connection: Annotated[str, AfterValidator(_check_connection)] | None = None
    """The connection to the repository, which a person has made in that account."""
    bucket: BucketSource | None = None
    """In place of a connection."""
    reap_every_hours: Annotated[int, Field(ge=1, le=24)] = 1
    """How often environments that have expired are destroyed."""
    permissions_boundary: PolicyName | None = None
    """Name of the IAM policy in that account that bounds every role."""

    @model_validator(mode="after")
    def _one_source(self) -> PipelineDelivery:
        if (self.connection is None) == (self.bucket is None):
            raise ValueError("the pipeline has one source; give either connection or bucket")
        return self


class DeliverySpec(Record):
    """How changes reach the environments."""

    repository: Annotated[str, AfterValidator(_check_repository)]
    """owner/name on GitHub."""
    repository_ids: RepositoryIds | None = None
    """For repositories made since July 2026, and those that were renamed since or have opted in."""
    branch: Annotated[str, AfterValidator(_check_branch)] = "main"
    """The branch that is deployed."""
    environments: Annotated[tuple[DeliveredEnvironment, ...], Field(min_length=1)]
    """In the order in which a change reaches them; the first is where models are built."""
    providers_exist: Annotated[tuple[AccountId, ...], AfterValidator(check_distinct)] = ()
    """Accounts that know GitHub's tokens already; in others the first environment's stack tells them."""
    previews: PreviewDelivery | None = None
    pipeline: PipelineDelivery | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The environments, in order."""
        return tuple(environment.name for environment in self.environments)

    @property
    def subject(self) -> str:
        """What the subject of every token of the repository begins with."""
        if self.repository_ids is None:
            return f"repo:{self.repository}"
        owner, _, name = self.repository.partition("/")
        return f"repo:{owner}@{self.repository_ids.owner}/{name}@{self.repository_ids.repository}"

    @property
    def ref(self) -> str:
        """The branch as git and GitHub's tokens write it."""
        return f"refs/heads/{self.branch}"

    @property
    def branch_subject(self) -> str:
        """The subject of workflows that run on the branch, without an environment."""
        return f"{self.subject}:ref:{self.ref}"

    @property
    def pull_request_subject(self) -> str:
        """The subject of workflows that a pull request runs."""
        return f"{self.subject}:pull_request"

    def environment_subject(self, environment: str) -> str:
        """The subject of jobs that name an environment, whatever branch they run on."""
        return f"{self.subject}:environment:{environment}"

    @model_validator(mode="after")
    def _each_comes_once(self) -> DeliverySpec:
        first: dict[str, int] = {}
        refuse(
            Fault(("environments", index, "name"), f"{name!r} stands twice", "an environment has one turn")
            for index, name in enumerate(self.names)
            if first.setdefault(name, index) != index
        )
        if self.previews is not None and self.previews.environment not in self.names:
            refuse(
                [
                    Fault(
                        ("previews", "environment"),
                        f"{self.previews.environment!r} is none of the delivered environments",
                        f"write one of {', '.join(self.names)}",
                    )
                ]
            )
        return self


def load_delivery(project: Project) -> Document[DeliverySpec] | None:
    """The project's delivery file, None if it has none."""
    file = project.delivery_file
    return load_document(file, DeliverySpec) if file.exists() else None


def require_delivery(project: Project) -> Document[DeliverySpec]:
    """The project's delivery file."""
    document = load_delivery(project)
    if document is None:
        raise UsageError(
            f"there is no {project.delivery_file.name}, which says how changes reach the environments",
            remedy="docs/delivery.md shows one",
        )
    return document
