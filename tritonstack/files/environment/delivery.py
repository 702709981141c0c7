"""`delivery.yaml`: how changes reach the environments: repository, branch, order, approvals, and roles.

One file per project, beside `cdk.json`. It defines the roles that workflows assume
(`cdk deploy -c delivery=<environment>`), the order of deployments, and the pipeline for delivery inside AWS
(`cdk deploy -c pipeline=<branch>`).
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base.error_kinds import InvalidValueError, MissingReferenceError, NotApplicableError
from tritonstack.base.naming import Name
from tritonstack.base.paths import Project
from tritonstack.base.yaml import (
    Choice,
    Document,
    Record,
    check_distinct,
    load_document,
    matching,
    raise_violations,
)
from tritonstack.facts.region_features import ConfirmedFeatures
from tritonstack.files.environment.environment import AccountId, PolicyName, RegionName
from tritonstack.files.environment.tags import Lifetime

Repository = Annotated[
    str,
    matching(
        r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})/[A-Za-z0-9._-]{1,100}",
        "invalid GitHub repository {}; write owner/name",
    ),
]
# Trust policies compare the branch literally, so patterns are not allowed.
Branch = Annotated[
    str,
    matching(
        r"(?!.*(//|\.\.))[A-Za-z0-9][A-Za-z0-9._/-]{0,99}",
        "invalid branch name {}; write it in full, without refs/heads/",
    ),
]
ConnectionArn = Annotated[
    str,
    matching(
        r"arn:aws:(?:codeconnections|codestar-connections):[a-z0-9-]+:[0-9]{12}:connection/[a-z0-9-]+",
        "invalid connection ARN {}; copy it from CodeConnections: "
        "arn:aws:codeconnections:<region>:<account>:connection/<id>",
    ),
]


class RepositoryIds(Record):
    """GitHub's ids of the repository and its owner, which are part of its workflow tokens."""

    owner: Annotated[str, Field(pattern=r"^[0-9]{1,20}$")]
    repository: Annotated[str, Field(pattern=r"^[0-9]{1,20}$")]


class DeliveredEnvironment(Record):
    """An environment that changes are delivered to."""

    name: Name
    approval: bool = False
    """Whether each deployment needs an approval: a GitHub protection rule, or a step of the pipeline."""


class PreviewDelivery(Record):
    """The environment created for each pull request."""

    template: Name
    """environments/<template>.template.yaml"""
    environment: Name
    """The delivered environment whose account, region, and lock previews use."""
    ttl: Lifetime = "8h"
    """Lifetime of a preview unless its pull request is closed earlier."""
    name_prefix: Name = "pr"
    """Name prefix of previews, followed by a hyphen and the number of the pull request."""


class BucketSource(Record):
    """The repository as an archive in a bucket, uploaded by another system."""

    bucket: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
    key: Annotated[str, Field(pattern=r"^[A-Za-z0-9._/-]{1,200}\.zip$")] = "source.zip"


class PipelineDelivery(Record):
    """Delivery inside AWS: a pipeline in a tools account."""

    alternatives: ClassVar = (Choice(("connection", "bucket")),)

    account: AccountId
    region: RegionName
    region_features: ConfirmedFeatures = ()
    """Features that the region has although AWS's published lists omit them."""
    connection: ConnectionArn | None = None
    """ARN of the connection to the repository, created by a person in that account."""
    bucket: BucketSource | None = None
    """Used instead of a connection."""
    reap_every_hours: Annotated[int, Field(ge=1, le=24)] = 1
    """Interval for destroying expired environments."""
    permissions_boundary: PolicyName | None = None
    """Name of the IAM policy in that account that is the permissions boundary of all roles."""


class DeliverySpec(Record):
    """A delivery.yaml file."""

    repository: Repository
    """owner/name on GitHub."""
    repository_ids: RepositoryIds | None = None
    """Required for repositories created after July 2026, and for those renamed or opted in since then."""
    branch: Branch = "main"
    """The branch to deploy."""
    environments: Annotated[tuple[DeliveredEnvironment, ...], Field(min_length=1)]
    """In delivery order; models are built in the first one."""
    providers_exist: Annotated[tuple[AccountId, ...], AfterValidator(check_distinct)] = ()
    """Accounts that already have GitHub's OIDC provider; in others, the first environment's stack creates
    it."""
    previews: PreviewDelivery | None = None
    pipeline: PipelineDelivery | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The environments in delivery order."""
        return tuple(environment.name for environment in self.environments)

    @property
    def subject(self) -> str:
        """Prefix of the subject of all tokens of the repository."""
        if self.repository_ids is None:
            return f"repo:{self.repository}"
        owner, _, name = self.repository.partition("/")
        return f"repo:{owner}@{self.repository_ids.owner}/{name}@{self.repository_ids.repository}"

    @property
    def ref(self) -> str:
        """The branch as a git ref."""
        return f"refs/heads/{self.branch}"

    @property
    def branch_subject(self) -> str:
        """Token subject of workflows that run on the branch without an environment."""
        return f"{self.subject}:ref:{self.ref}"

    @property
    def pull_request_subject(self) -> str:
        """Token subject of workflows of pull requests."""
        return f"{self.subject}:pull_request"

    def environment_subject(self, environment: str) -> str:
        """Return the token subject of jobs that name an environment, on any branch."""
        return f"{self.subject}:environment:{environment}"

    @model_validator(mode="after")
    def _stages_are_distinct(self) -> DeliverySpec:
        first: dict[str, int] = {}
        raise_violations(
            InvalidValueError.at(
                ("environments", index, "name"), f"duplicate environment {name!r}", "keep one of the two"
            )
            for index, name in enumerate(self.names)
            if first.setdefault(name, index) != index
        )
        if self.previews is not None and self.previews.environment not in self.names:
            raise_violations(
                [
                    MissingReferenceError.at(
                        ("previews", "environment"),
                        f"{self.previews.environment!r} is not a delivered environment",
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
    """Load the project's delivery file; raise UsageError if it has none."""
    document = load_delivery(project)
    if document is None:
        raise NotApplicableError(
            f"{project.delivery_file.name} not found; it defines how changes reach the environments",
            remedy="create it; `tritonstack init` in another folder writes an example",
        )
    return document
