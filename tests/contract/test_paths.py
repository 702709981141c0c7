"""Methods and paths: which ones the port offers, and the errors of the others."""

import pytest

from tests.contract.bodies import numbers, said
from tests.contract.drivers import DOUBLE, Driver, Server

pytestmark = [pytest.mark.e2e, pytest.mark.own_server]

EVERYWHERE = [
    ("GET", "/ping", 200),
    ("POST", "/ping", 405),
    ("HEAD", "/ping", 405),
    ("PUT", "/ping", 405),
    ("GET", "/ping/", 400),
    ("GET", "/invocations", 405),
    ("PUT", "/invocations", 405),
    ("POST", "/invocations/", 400),
    ("GET", "/models", 200),
    ("PUT", "/models", 400),
    ("PATCH", "/models/abc", 400),
    ("GET", "/models/abc", 404),
    ("DELETE", "/models/abc", 404),
    ("POST", "/models/abc/invoke", 404),
    ("POST", "/models/abc/explain", 400),
    ("GET", "/", 400),
    ("POST", "/nothing", 400),
    ("GET", "/v2/health/ready", 400),
    ("POST", "/v2/models/double/infer", 400),
    ("GET", "/execution-parameters", 400),
    ("GET", "/metrics", 400),
]


@pytest.fixture(params=["one model", "many models"])
def server(request: pytest.FixtureRequest, driver: Driver) -> Server:
    return driver.single_model(DOUBLE) if request.param == "one model" else driver.multi_model().server


@pytest.mark.parametrize(("method", "path", "code"), EVERYWHERE)
def test_paths_have_the_expected_status_code(server, method, path, code):
    assert server.request(method, path).status == code


def test_a_query_changes_nothing(server):
    assert server.request("GET", "/ping?verbose=1").status == 200


def test_multi_model_server_has_no_model_at_invocations(many):
    answer = many.server.request("POST", "/invocations", body=numbers(1))
    assert answer.status == 400
    assert "model: 'unspecified_SAGEMAKER_TRITON_DEFAULT_MODEL_NAME'" in said(answer)
