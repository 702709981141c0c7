"""A hostile build reaches nothing of the machine; a sound one its cloud, indexes, and its models' remotes."""

import functools
import http.server
import json
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from packages.local_cloud.tests.codebuild.conftest import builds_in, spec
from tests.escapes.targets import ATTEMPTS, escaped, targets_of_a_sandbox
from tritonstack.base.paths import find_project
from tritonstack.triton.inside import private_root
from tritonstack.triton.inside.supervisor import PROBE
from tritonstack.triton.sandbox import SUPERVISOR, UNSHARE, why_no_namespaces
from tritonstack_local.codebuild.machines import network

pytestmark = pytest.mark.skipif(why_no_namespaces() is not None, reason="this system forbids namespaces")


def built_from(account, files, *commands, **variables):
    source = {"type": "S3", "location": account.upload("source.zip", files)}
    account.project(source={**source, "buildspec": json.dumps(spec(*commands))})
    given = [{"name": name, "value": value} for name, value in variables.items()]
    return account.ended(account.start(environmentVariablesOverride=given))


@pytest.fixture
def outside_tmp(running_cloud):
    """An account of a cloud whose folder is not in /tmp: every build has one for itself."""
    parent = find_project(Path(__file__)).state_dir
    with (
        tempfile.TemporaryDirectory(dir=parent) as folder,
        builds_in(running_cloud, Path(folder)) as account,
    ):
        yield account


def test_a_build_has_no_way_out(outside_tmp):
    account, state = outside_tmp, outside_tmp.services.folder
    (state / "secret").write_text("the cloud's")
    with targets_of_a_sandbox(own="/opt/builder", nests=True, state=state, proxy="https_proxy") as targets:
        command = f"/opt/builder/bin/python escape_attempts.py '{json.dumps(targets)}'"
        build = built_from(account, {"escape_attempts.py": ATTEMPTS.read_text()}, command)
    # In a clone under /tmp, the path of the state is a private folder of the build.
    private = set() if (state / targets["mark"]).exists() else {"write the state"}
    assert set(escaped("\n".join(account.said(build)))) <= private
    assert build["buildStatus"] == "SUCCEEDED"


def test_a_server_of_a_build_has_namespaces_of_its_own(account):
    files = {path.name: path.read_text() for path in (SUPERVISOR, Path(private_root.__file__))}
    command = (*UNSHARE, "/opt/builder/bin/python", "-I", "-S", SUPERVISOR.name, PROBE)
    build = built_from(account, files, f"{' '.join(command)} && echo isolated")
    assert account.said(build) == ["isolated"]


@contextmanager
def web_server(address, folder):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer((address, 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    with server:
        yield f"http://{address}:{server.server_port}"
        server.shutdown()


def test_a_build_reaches_indexes_and_git_remotes_that_its_models_name(account, tmp_path, monkeypatch):
    remote, page = tmp_path / "remote.git", tmp_path / "page"
    for command in (("init", "-q", "--bare", remote), ("-C", remote, "update-server-info")):
        subprocess.run(["git", *command], check=True)
    page.write_text("a page")
    with (
        web_server("127.0.0.1", tmp_path) as index_here,
        web_server("127.0.0.2", tmp_path) as index,
        web_server("127.0.0.3", tmp_path) as git,
        web_server("127.0.0.4", tmp_path) as other,
    ):
        # No other address of this machine can stand for a remote elsewhere.
        elsewhere = network.is_elsewhere
        there = urlsplit(git).hostname
        monkeypatch.setattr(network, "is_elsewhere", lambda ip: ip == there or elsewhere(ip))
        monkeypatch.setenv("PIP_INDEX_URL", index_here)
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", index)
        code = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read())"
        fetch = f"/opt/builder/bin/python -c '{code}'"
        build = built_from(
            account,
            {"models/m/model.yaml": f"requirements: ['x @ git+{git}/remote.git']\n"},
            *(f"{fetch} {url}/page" for url in (index_here, index)),
            f"git clone -q {git}/remote.git here && ls -d here",
            f"{fetch} {other}/page 2>&1 | tail -1",
        )
    said = [line for line in account.said(build) if "empty repository" not in line]
    assert said[:3] == ["b'a page'", "b'a page'", "here"], "\n".join(said)
    assert "HTTP Error 403" in said[3]
    assert Path(other).name in said[3]


def test_a_build_names_no_address_and_no_folder_of_this_machine(outside_tmp, tmp_path):
    folder = find_project(Path(__file__)).state_dir
    with (
        tempfile.TemporaryDirectory(dir=folder) as secrets,
        web_server("127.0.0.1", tmp_path) as here,
        web_server("127.0.0.5", tmp_path) as other,
    ):
        port = urlsplit(other).port
        named = [f"http://{host}:{port}" for host in ("127.0.0.5", "[::ffff:127.0.0.5]", "169.254.169.254")]
        remotes = "".join(
            f"- git+{url}/r.git\n" for url in [here, *named, "http://*:80", "http://[", "http://a:b"]
        )
        ask = "import sys, urllib.request as r; r.urlopen(sys.argv[1])"
        fetch = f"/opt/builder/bin/python -c '{ask}'"
        build = built_from(
            outside_tmp,
            {"models/m/model.yaml": remotes},
            f"ls {secrets} 2>/dev/null || echo hidden",
            *(f"{fetch} '{url}' 2>&1 | tail -1" for url in [here, *named, "http://example.com"]),
            PIP_FIND_LINKS=secrets,
            PIP_INDEX_URL=here,
            PIP_EXTRA_INDEX_URL=f"{named[0]} https://*.com",
        )
    said = outside_tmp.said(build)
    assert said[0] == "hidden"
    assert "refused" in said[1]
    assert ["HTTP Error 403" in line for line in said[2:]] == [True] * 4, said


@pytest.mark.parametrize(
    ("address", "elsewhere"),
    [
        *((ip, False) for ip in ("127.0.0.1", "127.9.9.9", "::1", "::", "169.254.169.254")),
        *((ip, False) for ip in ("fe80::1", "224.0.0.1", "ff02::1", "::ffff:127.0.0.1", str(ip_address(0)))),
        *((ip, True) for ip in ("10.0.0.1", "192.168.1.1", "fd00::1", "1.1.1.1", "::ffff:10.0.0.1")),
    ],
)
def test_private_addresses_are_elsewhere_and_this_machine_is_not(address, elsewhere):
    assert network.is_elsewhere(address) is elsewhere


def test_the_cloud_follows_no_link_of_a_build(account, tmp_path):
    (tmp_path / "folder").write_text("of the user")
    build = account.built(f"mv $TMPDIR/shell $TMPDIR/old; ln -s {tmp_path} $TMPDIR/shell", "true")
    assert build["buildComplete"]
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("folder", "of the user")]
