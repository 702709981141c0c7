"""AWS as moto plays it inside the test's own process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from moto import mock_aws


@contextmanager
def played_aws() -> Iterator[None]:
    """moto's AWS without AWS's own policies, which whoever has imported the embedded cloud gets otherwise.

    moto would make 1,500 of them for each account that any test of this process has used, twice a test.
    """
    with patch.dict(os.environ):
        os.environ.pop("MOTO_IAM_LOAD_MANAGED_POLICIES", None)
        with mock_aws():
            yield
