"""Implement `serve` of the stand-in image: become the server that NVIDIA's script starts."""

import os
import sys
from pathlib import Path

sys.path.insert(0, "/opt/stand-in")

from tritonstack.triton.errors import ServeRejectedError
from tritonstack.triton.serve import serve_command


def main() -> None:
    """Print what `serve` prints, create its folders, and become the server."""
    try:
        command = serve_command(environment=os.environ, model_root=Path("/opt/ml/model"))
    except ServeRejectedError as error:
        print(error.message, flush=True)
        sys.exit(1)
    for notice in command.notices:
        print(notice, flush=True)
    for folder in command.folders_made:
        folder.mkdir(parents=True, exist_ok=True)
    os.execvpe(command.argv[0], command.argv, dict(command.environment))  # noqa: S606 - that is its task


main()
