"""`make pictures`: draw docs/images from a real session on this machine.

Builds the sentence embeddings of the example, deploys them to a local cloud of their own, sends load for some
minutes, and draws what the terminal and the dashboards show. Then promotes the model to a second environment,
changes it in the first, and photographs the report on both in Chromium.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tools.pictures.browser import find_browser, photograph
from tools.pictures.dashboards import TimeRange, draw_dashboard
from tools.pictures.screens import film, still
from tools.pictures.session import NAME, RecordedSession, SessionError
from tritonstack.base.paths import Project, find_project
from tritonstack.operate.shared.session import Session

_IMAGES = "docs/images"
_COLUMNS, _ROWS = 100, 30
_TITLE = f"~/{NAME}"
_RATES = (2, 6, 12, 20, 12, 4)
"""Requests per second, one after the other."""
_PRICES = "prices:\n  ml.c7i.large: 0.107\n  ml.c7i.xlarge: 0.214\n"
"""Examples, per hour; the dashboards then show the cost."""
_REPORT_WIDTH, _REPORT_HEIGHT = 1280, 1200
_CHANGES = (
    "tritonstack new environment live --account 000000000001 --region us-east-1 --promote-from local",
    "tritonstack new endpoint mpnet --environment live --model mpnet",
    "sed -i 's/^removal: retain/removal: destroy/' environments/live.yaml",
    "echo 'tags: {owner: search team}' >> environments/local.yaml",
    "echo 'tags: {owner: platform team}' >> environments/live.yaml",
    "tritonstack up --detach --account 000000000001",
    "tritonstack promote local live --bootstrap",
    "git add . && git commit -qm 'Promote mpnet to live'",
    "tritonstack deploy live && tritonstack verify live",
    "sed -i 's/max_batch: 16/max_batch: 32/' models/mpnet/model.yaml",
    "tritonstack build local --no-publish",
    "git add . && git commit -qm 'Batch up to 32 texts'",
    "tritonstack deploy local && tritonstack verify local",
)
"""A promotion to a second account, and a rollout in the first."""


def main() -> int:
    """Draw all pictures; the local cloud is stopped at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load-seconds", type=int, default=40, help="time per rate of the load")
    options = parser.parse_args()
    source = find_project(Path(__file__).parent)
    with tempfile.TemporaryDirectory(prefix="pictures-") as name:
        session = RecordedSession(source, Path(name), columns=_COLUMNS)
        try:
            find_browser()
            for file, text in _pictures(session, options.load_seconds).items():
                _write(source.root / _IMAGES / file, text, session)
        except SessionError as error:
            print(error, file=sys.stderr)
            return 1
        finally:
            if session.folder.is_dir():
                session.run("tritonstack down --all --forget")
    return 0


def _pictures(session: RecordedSession, load_s: int) -> dict[str, str | bytes]:
    """Return the pictures by file name."""
    session.prepare()
    help_ = session.type("tritonstack --help", columns=84, folder=session.home)
    session.recordings.clear()
    session.type(f"tritonstack init {session.folder.name} --example sentence-embeddings", folder=session.home)
    session.furnish()
    with (session.folder / "environments/local.yaml").open("a", encoding="utf-8") as file:
        file.write(_PRICES)
    session.run("python train.py && git init && git add . && git add -f models && git commit -m Start")
    build = session.type("tritonstack build local --no-publish")
    session.type("git add . && git commit -qm 'Lock mpnet'")
    session.type("tritonstack up --detach")
    created = session.type("tritonstack diff local")
    session.type("tritonstack deploy local --bootstrap")
    session.type('tritonstack invoke local mpnet "A man is eating food."')
    verify = session.type("tritonstack verify local")
    session.type("tritonstack status local")
    begin = datetime.now(UTC)
    rates = ",".join(map(str, _RATES))
    session.run(f"tritonstack bench local mpnet --rate {rates} --duration {load_s} --yes")
    time.sleep(65)  # CloudWatch has the last minute only after it has ended
    dashboards = _dashboards(session, begin)
    loaded = session.type("tritonstack status local")
    session.recordings.pop()
    session.run(
        "sed -i 's/instance_type: ml.c7i.large/instance_type: ml.c7i.xlarge/' environments/local.yaml"
    )
    changed = session.type("tritonstack diff local")
    attention = session.type("tritonstack status local", columns=80)
    del session.recordings[-2:]
    session.run("git checkout environments/local.yaml")
    report = _report(session)
    session.type("tritonstack destroy local --yes")
    return {
        "help.svg": still(help_, columns=84, title="~"),
        "build.svg": still(build, columns=_COLUMNS, title=_TITLE),
        "diff.svg": still(changed, columns=_COLUMNS, title=_TITLE),
        "diff-new.svg": still(created, columns=_COLUMNS, title=_TITLE),
        "status.svg": still(loaded, columns=_COLUMNS, title=_TITLE),
        "status-attention.svg": still(attention, columns=80, title=_TITLE),
        "verify.svg": still(verify, columns=_COLUMNS, title=_TITLE),
        "session.svg": film(session.recordings, columns=_COLUMNS, rows=_ROWS, title=_TITLE),
        "report.png": report,
        **dashboards,
    }


def _report(session: RecordedSession) -> bytes:
    """Promote the model to another account, change it and roll it out, and photograph the report."""
    for command in _CHANGES:
        session.run(command)
    page = session.home / "report.html"
    session.run(f"tritonstack report local live --output {page}")
    _check_privacy(page.name, page.read_text(encoding="utf-8"), session)
    return photograph(page, width=_REPORT_WIDTH, height=_REPORT_HEIGHT)


def _dashboards(session: RecordedSession, begin: datetime) -> dict[str, str]:
    project = Session(Project(session.folder))
    cloud = project.cloud(project.workspace("local").spec)
    names = [
        entry["DashboardName"] for entry in cloud.client("cloudwatch").list_dashboards()["DashboardEntries"]
    ]
    minute = begin.replace(second=0, microsecond=0)
    shown = TimeRange(minute - timedelta(minutes=1), datetime.now(UTC))
    kinds = {name: "environment" if "_environment_" in name else "endpoint" for name in names}
    return {f"dashboard-{kind}.svg": draw_dashboard(cloud, name, shown) for name, kind in kinds.items()}


def _write(file: Path, picture: str | bytes, session: RecordedSession) -> None:
    if isinstance(picture, str):
        _check_privacy(file.name, picture, session)
        picture = picture.encode()
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(picture)
    print(f"wrote {_IMAGES}/{file.name}")


def _check_privacy(name: str, text: str, session: RecordedSession) -> None:
    for private in (str(session.home), str(session.source.root), str(Path.home())):
        if private in text:
            raise SessionError(f"{name} shows the path {private}")


if __name__ == "__main__":
    sys.exit(main())
