"""CDK entry: one environment in, its stacks out.

    cdk synth -c env=dev

A pure function of the commit: no call to AWS, no clock, no random name.
"""

import os
import sys
from pathlib import Path

# The runtime behind aws_cdk draws a box on every start under Node 20, which would bury what matters.
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")

import aws_cdk as cdk

from catalog.errors import TritonstackError, UsageError
from catalog.loading import environment_names, load_workspace
from catalog.project import Project
from stacks.environment import add_environment


def main() -> None:
    """Synthesise the stacks of the environment that the context names."""
    project = Project(Path(__file__).resolve().parent)
    app = cdk.App()
    add_environment(app, workspace=load_workspace(project, _environment_of(app, project)))
    app.synth()


def _environment_of(app: cdk.App, project: Project) -> str:
    name = app.node.try_get_context("env")
    if not name:
        known = environment_names(project)
        raise UsageError(
            "no environment was named",
            remedy=f"add -c env=<name>; there are: {', '.join(known) or 'none'}",
        )
    return str(name)


if __name__ == "__main__":
    try:
        main()
    except TritonstackError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
