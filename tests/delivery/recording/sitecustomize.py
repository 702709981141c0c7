"""Writes down every call to AWS that a step's commands make, so that a test can hold them against its role.

Python reads this file by itself when its folder is on the path; boto3 tells every session of the hook.
"""

from __future__ import annotations

import json
import os
from typing import Any

import botocore.session

_LOG = os.environ.get("RECORDED_CALLS")
_new_session = botocore.session.get_session


def _record(model: Any, **_: Any) -> None:
    with open(str(_LOG), "a", encoding="utf-8") as log:
        log.write(json.dumps([model.service_model.service_name, model.name]) + "\n")


def _recorded_session(*arguments: Any, **options: Any) -> Any:
    session = _new_session(*arguments, **options)
    session.register("before-call", _record)
    return session


if _LOG:
    botocore.session.get_session = _recorded_session
