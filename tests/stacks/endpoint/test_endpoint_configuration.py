"""An endpoint's configuration: variants, instances, volumes, timeouts, data capture, and answers."""

import pytest

from tests.projects import edit
from tests.stacks.assemblies import lock_everything
from tests.stacks.templates import properties

CONFIG = "AWS::SageMaker::EndpointConfig"


@pytest.fixture
def plain(sample):
    return sample.endpoint("plain")


def test_requested_metrics(bare_project, synthesize):
    project = bare_project()
    file = project.environment_file("kept")
    edit(file, "plain: {", "plain: {metrics: {detailed: true, enhanced: true, publish_every_s: 10}, ")
    template = synthesize(lock_everything(project, "kept")).endpoint("plain")
    assert properties(template, CONFIG)["MetricsConfig"] == {
        "EnableDetailedObservability": True,
        "EnableEnhancedMetrics": True,
        "MetricPublishFrequencyInSeconds": 10,
    }


def test_variant_with_local_disks_has_unencrypted_volumes_and_a_warning(every):
    assert "KmsKeyId" not in properties(every.endpoint("shadowed"), CONFIG)
    metadata = (every.folder / "tritonstack-every-endpoint-shadowed.metadata.json").read_text()
    assert "no volume key" in metadata
