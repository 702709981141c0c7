#!/usr/bin/env python3
"""Plays NVIDIA's trtexec: as strict about its flags, and its plans hold the graph that they were made of.

Beside it lies `stand_in.json` with the version it plays and the GPU; it writes each command line into
`commands.jsonl` there. Flags and rules were read from samples/common/sampleOptions.cpp of NVIDIA/TensorRT.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HOME = Path(sys.argv[0]).absolute().parent
MAGIC = b"stand-in plan\n"
CACHE_MAGIC = "timings of "

ALWAYS = [
    "onnx",
    "saveEngine",
    "loadEngine",
    "minShapes",
    "optShapes",
    "maxShapes",
    "memPoolSize",
    "timingCacheFile",
    "versionCompatible",
    "vc",
    "excludeLeanRuntime",
    "skipInference",
    "builderOptimizationLevel",
    "profilingVerbosity",
    "exportTimes",
    "verbose",
    "device",
    "hardwareCompatibilityLevel",
    "noTF32",
    "fp16",
    "int8",
    "fp8",
    "best",
    "layerPrecisions",
    "layerOutputTypes",
    "precisionConstraints",
    "calib",
]
UNTIL_8 = [
    "workspace",
    "buildOnly",
    "explicitBatch",
    "maxBatch",
    "batch",
    "uff",
    "model",
    "deploy",
    "minTiming",
    "heuristic",
]
SINCE = {
    "bf16": (10, 0),
    "stronglyTyped": (10, 0),
    "profile": (10, 0),
    "getPlanVersionOnly": (10, 0),
    "stripWeights": (10, 0),
    "int4": (10, 1),
    "runtimePlatform": (10, 2),
}
GONE_IN_11 = [
    "fp16",
    "bf16",
    "int8",
    "int4",
    "fp8",
    "best",
    "layerPrecisions",
    "layerOutputTypes",
    "precisionConstraints",
    "calib",
]
VALUED = [
    "onnx",
    "saveEngine",
    "loadEngine",
    "minShapes",
    "optShapes",
    "maxShapes",
    "memPoolSize",
    "timingCacheFile",
    "profile",
    "builderOptimizationLevel",
    "hardwareCompatibilityLevel",
    "workspace",
    "device",
]


def main() -> None:
    stand_in = json.loads((HOME / "stand_in.json").read_text())
    version = tuple(stand_in["version"])
    with (HOME / "commands.jsonl").open("a") as log:
        log.write(json.dumps(sys.argv[1:]) + "\n")
    major, minor, patch = version[:3]
    number = major * 10_000 + minor * 100 + patch if major >= 10 else major * 1000 + minor * 100 + patch
    print(f"&&&& RUNNING TensorRT.trtexec [TensorRT v{number}] # {' '.join(sys.argv)}", flush=True)
    options = [argument.removeprefix("--").partition("=")[::2] for argument in sys.argv[1:]]
    check(options, version)
    named = dict(options)
    if "getPlanVersionOnly" in named:
        told = json.loads(Path(named["loadEngine"]).read_bytes().removeprefix(MAGIC).split(b"\n", 1)[0])
        print(f"[I] Plan was created with TensorRT version {told['tensorrt']}")
        return
    print(f"[I] Compute Capability: {stand_in['capability']}")
    use_timing_cache(named, stand_in["capability"])
    graph = Path(named["onnx"])
    plan = {"tensorrt": ".".join(map(str, version)), "files": [], "flags": sys.argv[1:]}
    parts = []
    for file in sorted(graph.parent.iterdir()):
        plan["files"].append([file.name, file.stat().st_size])
        parts.append(file.read_bytes())
    Path(named["saveEngine"]).write_bytes(MAGIC + json.dumps(plan).encode() + b"\n" + b"".join(parts))
    print("&&&& PASSED TensorRT.trtexec")


def fail(message: str) -> None:
    print(f"[E] {message}\n&&&& FAILED TensorRT.trtexec", flush=True)
    sys.exit(1)


def check(options: list[tuple[str, str]], version: tuple[int, ...]) -> None:
    for name, value in options:
        if not known(name, version):
            fail(f"Unknown option: --{name}")
        if (name in VALUED) != bool(value):
            fail(f"--{name} {'needs' if name in VALUED else 'takes no'} value")
    named = dict(options)
    given = [name for name, _ in options]
    check_values(named, version)
    if "profile" in named:
        check_profiles(options)
    elif any(given.count(f"{which}Shapes") > 1 for which in ("min", "opt", "max")):
        fail("Multiple --minShapes/--optShapes/--maxShapes without --profile are not allowed.")
    if len({f"{which}Shapes" in named for which in ("min", "opt", "max")}) > 1:
        fail("minShapes, optShapes and maxShapes belong together")
    if "fp8" in named and "int8" in named:
        fail("Invalid usage, fp8 and int8 aren't allowed to be enabled together.")
    if "best" in named and "stronglyTyped" in named:
        fail("--best and --stronglyTyped cannot be both set.")
    if "loadEngine" not in named and not {"onnx", "saveEngine"} <= named.keys():
        fail("Model missing or format not recognized")


def known(name: str, version: tuple[int, ...]) -> bool:
    if version >= (11,) and name in GONE_IN_11:
        return False
    if name in UNTIL_8:
        return version < (10,)
    return name in ALWAYS or version >= SINCE.get(name, (99,))


def check_values(named: dict[str, str], version: tuple[int, ...]) -> None:
    levels = ["none", "ampere+"] + (["samecomputecapability"] if version >= (10, 9) else [])
    if named.get("hardwareCompatibilityLevel", "none").lower() not in levels:
        fail(f"Unknown hardwareCompatibilityLevel: {named['hardwareCompatibilityLevel']}.")
    pool = named.get("memPoolSize")
    if pool is not None:
        name, _, size = pool.partition(":")
        digits = size if version < (10,) else size.rstrip("BKMG")
        if name != "workspace" or not digits.isdigit():
            fail("conversion failure: failed to parse --memPoolSize.")
    if named.get("builderOptimizationLevel", "3") not in "012345":
        fail("builderOptimizationLevel is between 0 and 5")
    for which in ("min", "opt", "max"):
        for item in filter(None, named.get(f"{which}Shapes", "").split(",")):
            name, _, sizes = item.rpartition(":")
            if not name or not all(size.isdigit() for size in sizes.split("x")):
                fail(f"failed to parse {item}")


def check_profiles(options: list[tuple[str, str]]) -> None:
    """Each number once and in order, its three shapes right behind it."""
    names = [name for name, _ in options]
    places = [place for place, name in enumerate(names) if name == "profile"]
    if [options[place][1] for place in places] != [str(number) for number in range(len(places))]:
        fail("Found invalid or missing shape spec at a profile index.")
    for place in places:
        if set(names[place + 1 : place + 4]) != {"minShapes", "optShapes", "maxShapes"}:
            fail("Found invalid or missing shape spec at a profile index.")


def use_timing_cache(named: dict[str, str], capability: str) -> None:
    file = Path(named.get("timingCacheFile", "/nonexistent"))
    if "timingCacheFile" not in named:
        return
    if file.exists():
        if file.read_text(errors="replace") != CACHE_MAGIC + capability:
            fail("Failed to set the timing cache")
        print("[I] Loaded the timing cache")
    else:
        print(f"[W] Could not read timing cache from: {file}. A new timing cache will be generated.")
    file.write_text(CACHE_MAGIC + capability)


if __name__ == "__main__":
    main()
