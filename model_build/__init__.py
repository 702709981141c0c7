"""From a model's file to a verified, reproducible artifact, on a laptop and in a build job alike.

fetch the source -> export -> compare with the framework -> lay the Triton repository -> pack -> serve the
very archive with a real Triton and compare again -> keep it, its manifest last.
"""

from model_build.artifacts import verify_artifact
from model_build.build import BuildFolders, BuildResult, build_model
from model_build.progress import Progress
from model_build.store import Published, publish

__all__ = [
    "BuildFolders",
    "BuildResult",
    "Progress",
    "Published",
    "build_model",
    "publish",
    "verify_artifact",
]
