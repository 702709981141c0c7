"""A hostile model reaches nothing of the machine, and a sound one is served in the same sandbox."""

import pytest

from tests.escapes.targets import ATTEMPTS, escaped, targets_of_a_sandbox
from tests.triton.conftest import NEGATE, add_python_model
from tests.triton.kserve_requests import invoke, outputs

pytestmark = pytest.mark.e2e

HOSTILE = """
import sys
sys.path.insert(0, "/opt/ml/model/negate/1")
import escape_attempts
print("ESCAPED", escape_attempts.json.dumps(escape_attempts.successes({targets!r})), flush=True)
"""


def test_a_model_has_no_way_out(start, tmp_path):
    with targets_of_a_sandbox(own="/opt/ml/model", nests=False) as targets:
        models = add_python_model(tmp_path / "models", source=HOSTILE.format(targets=targets) + NEGATE)
        (models / "negate/1/escape_attempts.py").write_text(ATTEMPTS.read_text())
        server = start(models)
        assert escaped(server.log_path.read_text()) == []
        assert outputs(invoke(server, [1.0])) == {"y": [-1.0]}
