"""AWS as moto simulates it within the test process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from unittest.mock import patch

from moto import mock_aws
from moto.core.models import DEFAULT_ACCOUNT_ID

from tritonstack_local.moto_patches.patching import uncorrected


@contextmanager
def played_aws() -> Iterator[None]:
    """moto's AWS as it comes, though an embedded cloud may have corrected it in this process.

    It is without AWS's own policies, which whoever has imported the embedded cloud gets otherwise: moto would
    make 1,500 of them for each account that any test of this process has used, twice a test.
    """
    with patch.dict(os.environ), uncorrected():
        os.environ.pop("MOTO_IAM_LOAD_MANAGED_POLICIES", None)
        with mock_aws(), _its_own_account():
            yield


def _its_own_account() -> AbstractContextManager[object]:
    """Callers without an account in their key act in moto's own, not in that of the last embedded cloud."""
    corrections = sys.modules.get("tritonstack_local.moto_patches.install")
    if corrections is None:
        return nullcontext()
    return patch.object(corrections, "_default_account", DEFAULT_ACCOUNT_ID)
