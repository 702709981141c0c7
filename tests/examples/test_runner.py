"""tools/examples.py: which commands it runs, and how it reports those that fail."""

import json
from pathlib import Path

import pytest

from tools import examples
from tools.examples import ExampleFailedError, ExampleResult, ServedModel, documented_commands
from tritonstack.base.paths import Project
from tritonstack.operate.shared.local_cloud import read_address

README = f"""\
# An example

```console
python train.py   # comment
eval "$(tritonstack up --shell)" \\
  # another
tritonstack invoke local a "Number #1"
```

```yaml
# no command
```

```console
tritonstack destroy local --yes
```

{examples.NOT_RUN}

```console
tritonstack deploy dev-gpu
```
"""


def test_the_commands_above_the_last_section_run_without_comments():
    assert documented_commands(README) == [
        "python train.py",
        'eval "$(tritonstack up --shell)"',
        'tritonstack invoke local a "Number #1"',
        "tritonstack destroy local --yes",
    ]


@pytest.mark.parametrize(
    ("missing", "message"),
    [(examples.NOT_RUN, "no section"), ("tritonstack destroy local --yes", "not show")],
)
def test_a_readme_without_a_required_part_is_an_error(missing, message):
    with pytest.raises(ExampleFailedError, match=message):
        documented_commands(README.replace(missing, ""))


MODEL = ServedModel(
    model="mpnet",
    digest="ab" * 32,
    kind="ensemble",
    size_bytes=4_100_000,
    min_cosine=0.99999,
    max_absolute_error=1e-6,
    p50_ms=1.5,
)


def test_a_failed_example_fails_the_command_and_the_others_are_run(monkeypatch, capsys):
    ran = []

    def run(name: str, _folder: Path, *, log: Path) -> ExampleResult:
        ran.append((name, log.name))
        if name == "first":
            raise ExampleFailedError("`python compare.py` exited with 1")
        return ExampleResult(example=name, seconds=1, models=(MODEL,), yaml_lines=20)

    monkeypatch.setattr(examples, "run_example", run)
    monkeypatch.setattr(examples, "example_names", lambda: ["first", "second"])
    assert examples.main([]) == 1
    table = capsys.readouterr().out
    assert "compare.py" in table
    assert "4.1 MB" in table
    assert examples.main(["second"]) == 0
    capsys.readouterr()
    assert examples.main(["--json"]) == 1
    reported = json.loads(capsys.readouterr().out)
    assert [(result["example"], bool(result["failure"])) for result in reported] == [
        ("first", True),
        ("second", False),
    ]
    assert [name for name, _ in ran] == ["first", "second", "second", "first", "second"]


@pytest.mark.e2e
def test_the_cloud_of_a_failed_example_is_stopped(tmp_path, monkeypatch):
    commands = ["tritonstack up --detach", "echo no such answer && exit 3", "tritonstack destroy local --yes"]
    monkeypatch.setattr(examples, "documented_commands", lambda _: commands)
    log = tmp_path / "log.txt"
    with pytest.raises(ExampleFailedError, match="exit 3`"):
        examples.run_example("sentence-embeddings", tmp_path / "it", log=log)
    ran = [line for line in log.read_text().splitlines() if line.startswith("+ ")]
    assert ran == ["+ tritonstack up --detach", f"+ {commands[1]}", "+ tritonstack down --forget"]
    assert read_address(Project(tmp_path / "it").cloud_dir()) is None
