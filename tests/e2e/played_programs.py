"""Stand-ins for `docker` and `aws`, for the job in the account that builds the builder's image.

The image needs an engine and a registry. That it is requested and arrives in its repository needs neither.
"""

from __future__ import annotations

import sys
from pathlib import Path

PROGRAMS = {
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


def write_programs(folder: Path) -> Path:
    """Write the stand-ins into a new folder, for PATH."""
    folder.mkdir()
    for name, code in PROGRAMS.items():
        (folder / name).write_text(f"#!{sys.executable}\n{code}")
        (folder / name).chmod(0o755)
    return folder
