"""CodeBuild, played on one machine: builds run the very commands of the deployed projects, in processes.

A build gets what CodeBuild would give it: the source archive from its bucket, unpacked; the variables of the
project, and those of who started it; a role, which is only written down. What it says goes to the log group
of all builds. In place of the container's Python and its user's home stand others; `docker` and `aws` are
programs in `tools`.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError

from tests.operations.strict_aws import StrictCodeBuild

_CALLS = {
    "StartBuild": "start_build",
    "ListBuildsForProject": "list_builds_for_project",
    "BatchGetBuilds": "batch_get_builds",
    "StopBuild": "stop_build",
}
_TOOLS = {
    # The image needs a Docker engine; that it is asked for and arrives in its repository does not.
    "docker": """
import json, os, sys
import boto3
if sys.argv[1] == "login":
    sys.stdin.read()
print("docker", sys.argv[1])
if sys.argv[1] == "push":
    name, _, tag = sys.argv[2].partition("/")[2].rpartition(":")
    manifest = {"schemaVersion": 2, "config": {"digest": tag}, "layers": []}
    boto3.client("ecr").put_image(
        repositoryName=name, imageTag=tag, imageManifest=json.dumps(manifest),
        imageManifestMediaType="application/vnd.docker.distribution.manifest.v2+json",
    )
""",
    "aws": """
import sys
import boto3
if sys.argv[2] == "get-login-password":
    print("password")
else:
    options = dict(zip(sys.argv[3::2], sys.argv[4::2]))
    boto3.client("ecr").describe_images(
        repositoryName=options["--repository-name"],
        imageIds=[{"imageTag": options["--image-ids"].removeprefix("imageTag=")}],
    )
""",
}


class PlayedCodeBuild(StrictCodeBuild):
    """Projects as the deployed stack has them, found when a build of theirs is started."""

    def __init__(self, stack: str, folder: Path, variables: dict[str, str]) -> None:
        super().__init__()
        self._stack = stack
        self._folder = folder
        self._variables = variables
        self._threads: list[threading.Thread] = []
        self.held = threading.Event()
        """Builds of models wait for it before they run their commands."""
        self.held.set()
        self._lock = threading.RLock()
        self._tools = folder / "tools"
        self._tools.mkdir(parents=True)
        for name, code in _TOOLS.items():
            tool = self._tools / name
            tool.write_text(f"#!{sys.executable}\n{code}")
            tool.chmod(0o755)

    def start_build(self, **parameters: Any) -> dict[str, Any]:
        with self._lock:
            before = len(self.started)
            answer = super().start_build(**parameters)
            if len(self.started) > before:
                build = self.builds[answer["build"]["id"]]
                thread = threading.Thread(target=self._run, args=(build, parameters))
                thread.start()
                self._threads.append(thread)
            return answer

    def wait(self) -> None:
        """Until every build has ended."""
        self.held.set()
        for thread in self._threads:
            thread.join()

    def _require(self, project: str) -> None:
        self._projects = tuple(self._deployed())
        super()._require(project)

    def _deployed(self) -> dict[str, dict[str, Any]]:
        client = self._client("cloudformation")
        try:
            template = client.get_template(StackName=self._stack)["TemplateBody"]
        except ClientError:
            return {}
        found = json.loads(template) if isinstance(template, str) else template
        return {
            item["Properties"]["Name"]: item["Properties"]
            for item in found["Resources"].values()
            if item["Type"] == "AWS::CodeBuild::Project"
        }

    def _run(self, build: dict[str, Any], parameters: dict[str, Any]) -> None:
        if any(item["name"] == "MODEL" for item in parameters["environmentVariablesOverride"]):
            self.held.wait()
        number = build["id"].rpartition(":")[2]
        log = _Log(self._client("logs"), f"/{self._stack.removesuffix('-build')}/builds", f"played/{number}")
        build |= {"currentPhase": "BUILD", "logs": {"groupName": log.group, "streamName": log.stream}}
        project = self._deployed()[parameters["projectName"]]
        source = self._unpack(parameters["sourceLocationOverride"], self._folder / f"build-{number}")
        variables = {
            item["Name"]: item["Value"] for item in project["Environment"].get("EnvironmentVariables", [])
        } | {item["name"]: item["value"] for item in parameters["environmentVariablesOverride"]}
        for command in json.loads(project["Source"]["BuildSpec"])["phases"]["build"]["commands"]:
            status = self._command(command, source, variables, log)
            if status != 0:
                context = {"message": f"Error while executing command. Reason: exit status {status}"}
                phase = {"phaseType": "BUILD", "phaseStatus": "FAILED", "contexts": [context]}
                self.end(build["id"], "FAILED", phase)
                return
        self.end(build["id"], "SUCCEEDED")

    def _unpack(self, location: str, folder: Path) -> Path:
        bucket, _, key = location.partition("/")
        body = self._client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            archive.extractall(folder / "src")
        return folder / "src"

    def _command(self, command: str, source: Path, variables: dict[str, str], log: _Log) -> int:
        here = command.replace("/home/builder", str(source.parent))
        process = subprocess.Popen(
            ["/bin/sh", "-c", here.replace("/opt/builder/bin/python", sys.executable)],
            cwd=source,
            env={
                "PATH": f"{self._tools}:{os.environ['PATH']}",
                "TRITONSTACK_HOME": str(self._folder / "state"),
                **self._variables,
                **variables,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
        return process.wait()

    def _client(self, service: str) -> Any:
        return boto3.client(
            service, endpoint_url=self._variables["AWS_ENDPOINT_URL"], region_name="us-east-1"
        )


class _Log:
    def __init__(self, client: Any, group: str, stream: str) -> None:
        self._client, self.group, self.stream = client, group, stream
        client.create_log_stream(logGroupName=group, logStreamName=stream)

    def write(self, line: str) -> None:
        event = {"timestamp": int(time.time() * 1000), "message": line.rstrip("\n") or " "}
        self._client.put_log_events(logGroupName=self.group, logStreamName=self.stream, logEvents=[event])


def serve(codebuild: PlayedCodeBuild) -> ThreadingHTTPServer:
    """Answer as CodeBuild does, on a port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            operation = self.headers["X-Amz-Target"].rpartition(".")[2]
            parameters = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, answer = 200, getattr(codebuild, _CALLS[operation])(**parameters) or {}
            except ClientError as error:
                code, message = error.response["Error"]["Code"], error.response["Error"]["Message"]
                status, answer = 400, {"__type": code, "message": message}
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
