"""`tritonstack ci`: steps of the GitHub workflows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tritonstack.cli.context import Context
from tritonstack.cli.help_text import HelpfulCommand
from tritonstack.operate.project import github

ci = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Run a step of the GitHub workflows. Every step needs `gh` and the environment variable GH_TOKEN.",
)
Repository = Annotated[
    str, typer.Option(envvar="GITHUB_REPOSITORY", metavar="OWNER/NAME", help="The repository on GitHub.")
]


@ci.command(
    "previous-deploy", short_help="Print the commit of the last successful deploy", cls=HelpfulCommand
)
def previous_deploy(
    context: typer.Context,
    workflow: Annotated[str, typer.Option(metavar="FILE", help="The workflow that deploys.")],
    otherwise: Annotated[
        str, typer.Option("--or", metavar="COMMIT", help="The commit before the push; empty without a push.")
    ],
) -> None:
    """Print the commit of the last successful deploy as a step output, `before=COMMIT`.

    Without a successful deploy, it is the commit given with --or. If that is empty, no commit is printed, and
    every environment is deployed.

    Example: tritonstack ci previous-deploy --workflow deploy.yml --or "$BEFORE" >> "$GITHUB_OUTPUT"
    """
    state: Context = context.obj
    commit = github.last_deployed(workflow=workflow, pushed_over=otherwise)
    state.output.result(github.PreviousDeploy(commit), text=f"before={commit}")


@ci.command("propose-change", short_help="Propose changed locks as a pull request", cls=HelpfulCommand)
def propose_change(
    context: typer.Context,
    branch: Annotated[str, typer.Option(help="The branch of the proposal; it is replaced.")],
    title: Annotated[str, typer.Option(help="Title of the commit and of the pull request.")],
    body: Annotated[Path, typer.Option(metavar="FILE", help="A file with the pull request's text.")],
    repository: Repository,
) -> None:
    """Propose the changes of environments/ as a pull request, and start its checks.

    An open pull request of the same branch is updated. Without changes, nothing happens.

    Example: tritonstack ci propose-change --branch promote/prod --title "Promote dev to prod" --body body.md
    """
    state: Context = context.obj
    proposal = github.propose_change(
        state.project, repository=repository, branch=branch, title=title, body=body
    )
    text = f"proposed {branch}" if proposal else "no changes to propose"
    state.output.result(github.ProposedChange(proposal), text=text)


@ci.command("comment", short_help="Create or update a comment on a pull request", cls=HelpfulCommand)
def comment(
    context: typer.Context,
    about: Annotated[str, typer.Option(help="The subject: each has one comment.")],
    file: Annotated[Path, typer.Option(help="A file with the comment's Markdown.")],
    repository: Repository,
    pull_request: Annotated[
        int, typer.Option(envvar="PULL_REQUEST", metavar="NUMBER", help="The pull request.")
    ],
    verbatim: Annotated[bool, typer.Option("--verbatim", help="Show the text as a code block.")] = False,
) -> None:
    """Create or update the comment about a subject on a pull request.

    Example: tritonstack ci comment --about diff-dev --file diff.md
    """
    state: Context = context.obj
    github.comment(
        repository=repository, pull_request=pull_request, about=about, file=file, verbatim=verbatim
    )
    state.output.result(github.WrittenComment(about, pull_request), text=f"commented on #{pull_request}")
