"""An endpoint's stack: its scaling, alarms, and log, and its dependencies."""

import json

from tests.stacks.assemblies import MODEL, lock_everything

SHELF = """\
name: kept
account: "123456789012"
region: us-east-1
triton_release: "24.09"
endpoints:
  many: {{kind: multi-model, instance_type: ml.m7i.xlarge, models: [{models}]}}
"""


def test_only_the_published_names_depend_on_the_number_of_models(bare_project, synthesize):
    """Another model is another object under the endpoint's prefix; the endpoint stays as it is."""
    templates = []
    for count in (1, 1000):
        project = bare_project()
        names = [f"encoder-{number}" for number in range(count)]
        for name in names:
            project.model_file(name).parent.mkdir()
            project.model_file(name).write_text(MODEL.format(name=name))
        project.environment_file("kept").write_text(SHELF.format(models=", ".join(names)))
        template = synthesize(lock_everything(project, "kept")).endpoint("many").to_json()
        (config,) = [
            r for r in template["Resources"].values() if r["Type"] == "AWS::SageMaker::EndpointConfig"
        ]
        (variant,) = config["Properties"]["ProductionVariants"]
        pages = [key for key, r in template["Resources"].items() if r["Type"] == "AWS::SSM::Parameter"]
        published = [template["Resources"].pop(page)["Properties"]["Value"] for page in pages]
        assert {name for page in published for name in json.loads(page)} == set(names)
        templates.append((variant.pop("VolumeSizeInGB"), template))
    assert [volume for volume, _ in templates] == [32, 512]
    assert templates[0][1] == templates[1][1]
