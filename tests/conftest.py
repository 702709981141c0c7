"""Fixtures shared by several folders, and the summary at the end of a run."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

import botocore.loaders
import botocore.session
import pytest

# Under Node 20, the runtime of aws_cdk prints a warning on every start. `make setup` installs a newer Node.
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
# Checking a template against the CDK's own rules takes as long as making it. All environments are
# checked in tests/stacks/rules, and what tests/stacks/test_app.py and tests/examples synthesize.
os.environ["CDK_VALIDATION"] = "false"

from tests.projects import write_project
from tests.sample_templates import SHARED
from tritonstack.base.paths import Project

# Every botocore session and every call of the SageMaker SDK read megabytes of JSON again, which takes longer
# than most of these tests.
botocore.loaders.create_loader = functools.cache(botocore.loaders.create_loader)
botocore.session.create_loader = botocore.loaders.create_loader

SOAK_LIMIT_S = 1800
"""Only what hangs reaches it: a busy machine takes several times as long as an idle one."""
LARGEST_SHARE = 0.16
"""What one file may take of the time of `make test`. A share, because machines differ in speed."""
_SAMPLES = pytest.StashKey[str]()
SUPPRESSED = "suppressed findings"
"""The property by which a test tells how many findings of a rule set are suppressed."""


def pytest_configure(config: pytest.Config) -> None:
    """Let tests find the commands of this environment, as `make` does, and keep compiled files.

    Without compiled files, each worker takes 13 s longer, and each process of a test 2 s.
    """
    commands = (f"{sys.prefix}/bin", f"{config.rootpath}/node_modules/.bin")
    os.environ["PATH"] = os.pathsep.join([*commands, os.environ["PATH"]])
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # A test runner in the background ignores Ctrl-C, one under nohup SIGHUP, and what tests start would, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # A sixth of the time went into looking for garbage: among modules, classes and tests, which is none.
    gc.set_threshold(20_000, 20, 20)
    if not hasattr(config, "workerinput"):
        config.stash[_SAMPLES] = os.environ[SHARED] = tempfile.mkdtemp(prefix="tritonstack-samples-")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Delete the synthesized samples that the workers shared."""
    if folder := config.stash.get(_SAMPLES, None):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Use one worker more than cores: many tests wait for a process or a server."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the slow tests first, so that no worker is left with them at the end; give soak tests time."""
    items.sort(key=lambda item: not any(item.get_closest_marker(slow) for slow in ("soak", "e2e")))
    for item in items:
        if item.get_closest_marker("soak") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SOAK_LIMIT_S))


def pytest_collection_finish() -> None:
    """Exclude imported and collected objects, which stay until the end, from garbage collection."""
    gc.freeze()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project of one model and one environment in a temporary folder."""
    return write_project(tmp_path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the suppressed findings of the template rules."""
    told = [
        str(value)
        for report in terminalreporter.stats.get("passed", [])
        for name, value in report.user_properties
        if name == SUPPRESSED
    ]
    if told:
        terminalreporter.section(SUPPRESSED)
        for line in sorted(told):
            terminalreporter.write_line(line)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a whole run in which a file takes too much of the time."""
    config = session.config
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    is_whole = (
        config.args_source is pytest.Config.ArgsSource.TESTPATHS and config.option.markexpr == "not soak"
    )
    if hasattr(config, "workerinput") or reporter is None or not is_whole:
        return
    seconds = Counter[str]()
    for report in (report for reports in reporter.stats.values() for report in reports):
        if isinstance(report, pytest.TestReport):
            seconds[report.location[0]] += report.duration
    for file, taken in seconds.most_common(5):
        share = taken / seconds.total()
        reporter.write_line(f"{file} took {taken:.0f} s, {share:.1%} of all tests")
        if share > LARGEST_SHARE and session.exitstatus == 0:
            reporter.write_line(
                f"one file may take {LARGEST_SHARE:.0%}: share its builds, or mark tests `soak`"
            )
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
