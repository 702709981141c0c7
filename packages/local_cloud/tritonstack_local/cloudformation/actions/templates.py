"""Actions that return, validate, and summarize templates."""

from __future__ import annotations

import json
import re

from tritonstack_local.cloudformation.actions.base import ActionContext, Answer, Params, action
from tritonstack_local.cloudformation.actions.change_sets import find_change_set
from tritonstack_local.cloudformation.deployments.proposals import needed_capabilities, submitted_template
from tritonstack_local.cloudformation.errors import CloudFormationError
from tritonstack_local.cloudformation.templates.template import StackTemplate

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


@action("GetTemplate", takes="StackName ChangeSetName", accepts="TemplateStage")
def get_template(context: ActionContext, params: Params) -> Answer:
    """Return the submitted template; without transforms both stages are equal.

    As on AWS, non-ASCII characters are shown as question marks; resources get the original ones.
    """
    stack = context.store.get(context.scope, params["StackName"])
    under_review = stack.template is None and "ChangeSetName" not in params
    body = "" if under_review else _known_template(context, params).body
    return {"TemplateBody": _BEYOND_ASCII.sub("?", body), "StagesAvailable": ["Original", "Processed"]}


@action("GetTemplateSummary", takes="StackName TemplateBody TemplateURL")
def get_template_summary(context: ActionContext, params: Params) -> Answer:
    """Summarize a template's resources, parameters, and capabilities."""
    template = (
        _known_template(context, params)
        if "StackName" in params
        else submitted_template(store=context.store, scope=context.scope, params=params, previous=None)
    )
    needed = needed_capabilities(template)
    return {
        "Parameters": _parameters(template),
        "Description": template.description or None,
        "Capabilities": list(needed),
        "CapabilitiesReason": _reason(template) if needed else None,
        "ResourceTypes": sorted({resource.type for resource in template.resources.values()}),
        "Version": "2010-09-09",
        "Metadata": json.dumps(template.metadata) if template.metadata else None,
    }


@action("ValidateTemplate", takes="TemplateBody TemplateURL")
def validate_template(context: ActionContext, params: Params) -> Answer:
    """Validate a template."""
    template = submitted_template(store=context.store, scope=context.scope, params=params, previous=None)
    needed = needed_capabilities(template)
    return {
        "Parameters": _parameters(template),
        "Description": template.description or None,
        "Capabilities": list(needed),
        "CapabilitiesReason": _reason(template) if needed else None,
    }


def _known_template(context: ActionContext, params: Params) -> StackTemplate:
    if "ChangeSetName" in params:
        return find_change_set(context, params)[1].proposal.template
    stack = context.store.get(context.scope, params["StackName"])
    if stack.template is None:
        raise CloudFormationError(f"Stack {stack.identity.name} has no template yet")
    return stack.template


def _parameters(template: StackTemplate) -> list[Answer]:
    return [
        {
            "ParameterKey": key,
            "DefaultValue": str(declared["Default"]) if "Default" in declared else None,
            "ParameterType": declared.get("Type"),
            "NoEcho": str(declared.get("NoEcho", False)).lower() == "true",
            "Description": declared.get("Description"),
        }
        for key, declared in template.parameters.items()
    ]


def _reason(template: StackTemplate) -> str:
    iam = sorted({r.type for r in template.resources.values() if r.type.startswith("AWS::IAM::")})
    return f"The following resource(s) require capabilities: [{', '.join(iam)}]"
