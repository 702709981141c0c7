"""Manual approval: wait for PutApprovalResult."""

from __future__ import annotations

import json
import time
import uuid
from datetime import timedelta

from tritonstack_local.codepipeline.actions.work import POLL_S, ActionOutcome, Work
from tritonstack_local.codepipeline.errors import ActionFailedError

_WAITS_MINUTES = 7 * 24 * 60


def approve(work: Work) -> ActionOutcome:
    """Wait for approval; fail if it is rejected or times out."""
    run = work.look()
    if not run.token:
        run = work.note(token=str(uuid.uuid4()))
        _notify(work, run.token)
    minutes = work.action.get("timeoutInMinutes", _WAITS_MINUTES)
    until = (run.started + timedelta(minutes=minutes)).timestamp()
    while not run.code:
        if time.time() > until:
            raise ActionFailedError("TimeoutError", "The approval was not given in time")
        work.pause(POLL_S)
        run = work.look()
    if run.code == REJECTED:
        raise ActionFailedError("JobFailed", run.message)
    return ActionOutcome(summary=run.message)


APPROVED, REJECTED = "Approved", "Rejected"
"""Codes that PutApprovalResult records for the waiting action."""


def _notify(work: Work, token: str) -> None:
    topic = work.settings.get("NotificationArn")
    if topic is None:
        return
    content = {
        "region": work.home.region,
        "approval": {
            "pipelineName": work.pipeline,
            "stageName": work.stage,
            "actionName": work.action["name"],
            "token": token,
            "externalEntityLink": work.settings.get("ExternalEntityLink"),
            "customData": work.settings.get("CustomData"),
        },
    }
    subject = f"APPROVAL NEEDED: AWS CodePipeline {work.pipeline} for action {work.action['name']}"[:100]
    work.client("sns").publish(TopicArn=topic, Subject=subject, Message=json.dumps(content))
