"""AWS as moto simulates it within the test process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from moto import mock_aws

from tritonstack_local.moto_patches import images_and_quotas, uncorrected


@contextmanager
def simulated_aws() -> Iterator[None]:
    """moto's AWS with AWS's Triton images and quotas, even if a local cloud has patched it in this process.

    It omits AWS's managed policies, which an import of the local cloud enables: moto would create 1,500 of
    them per account, twice per test.
    """
    with patch.dict(os.environ), uncorrected():
        os.environ.pop("MOTO_IAM_LOAD_MANAGED_POLICIES", None)
        with mock_aws(), ExitStack() as corrections:
            for owner, name, correction in images_and_quotas.CORRECTIONS:
                corrections.enter_context(patch.object(owner, name, correction, create=True))
            yield
