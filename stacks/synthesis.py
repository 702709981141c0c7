"""Synthesize the stacks selected by the CDK context, for `tritonstack-app`.

    cdk synth -c env=dev
    cdk synth -c env=preview -c name=pr-123 -c owner=somebody -c expires=2026-11-22T08:30:00Z
    cdk synth -c delivery=dev
    cdk synth -c pipeline=main

A pure function of the commit: no call to AWS, no clock, no random name.
"""

import aws_cdk as cdk

from stacks.delivery import DeliveryStack, delivery_target
from stacks.environment import add_environment
from stacks.pipeline import PipelineStack, line_of
from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.paths import Project, find_project
from tritonstack.files.environment.tags import EXPIRES, OWNER, moment_text, parse_moment, tag_text
from tritonstack.files.environment.templates import RESERVED, Instance, Template
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.project.workspace import Workspace


def synthesize() -> None:
    """Synthesize the stacks selected by the context, from the project around the working directory."""
    project = find_project()
    app = cdk.App()
    if delivered := app.node.try_get_context("delivery"):
        DeliveryStack(app, target=delivery_target(project, str(delivered)))
    elif branch := app.node.try_get_context("pipeline"):
        PipelineStack(app, line=line_of(project, str(branch)))
    else:
        add_environment(app, workspace=_workspace_of(app, project))
    app.synth()


def _workspace_of(app: cdk.App, project: Project) -> Workspace:
    environment, files = app.node.try_get_context("env"), ProjectFiles(project)
    if not environment:
        names = [*files.environment_names, *(f"{name} (template)" for name in files.template_names)]
        raise CommandLineError(
            "no environment was named", remedy=f"add -c env=<name>; available: {', '.join(names) or 'none'}"
        )
    if environment in files.template_names:
        return files.instance(_instance_of(app, files.template(environment)))
    return files.workspace(str(environment))


def _instance_of(app: cdk.App, template: Template) -> Instance:
    """What of the context makes an instance of a template: nothing of it is made up here."""
    context = {key: app.node.try_get_context(key) for key in (*RESERVED, *template.head.parameters)}
    if missing := [key for key in RESERVED if not context[key]]:
        raise CommandLineError(
            f"an instance of {template.name} was asked for without {' and '.join(missing)}",
            remedy=f"`tritonstack deploy {template.name} --name <name>` says all of it, or add "
            + " ".join(f"-c {key}=…" for key in missing),
        )
    parameters = {key: str(context[key]) for key in template.head.parameters if context[key] is not None}
    return Instance(
        template.name,
        str(context["name"]),
        tag_text(str(context[OWNER])),
        moment_text(parse_moment(str(context[EXPIRES]))),
        template.parameters(parameters),
    )
