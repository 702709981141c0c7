"""Record every AWS call of a step's commands, to compare them with the permissions of its role.

Python imports this file automatically if its folder is on the path; boto3 calls the hook for every session.
"""

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
