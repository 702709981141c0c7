#!/usr/bin/env python3
"""Stand in for NVIDIA's trtexec: as strict about flags; its plans contain their graph.

Beside it lies `stand_in.json` with the version it plays and the GPU; it writes each command line into
`commands.jsonl` there. Flags, rules and what is printed were read from samples/common/sampleOptions.cpp,
sampleEngines.cpp, logging.h and samples/trtexec/trtexec.cpp of NVIDIA/TensorRT, branches release/8.6, 10.0,
10.4, 10.9, 10.13.3 and 10.16; how 8.6 reads graphs, from builtin_op_importers.cpp of onnx/onnx-tensorrt.

It is stricter in two things, which nobody should rely on: a flag takes no value that it does not need, and
the three shapes of a profile stand together (trtexec would take those that are there for the others).
"""

import json
import sys
from pathlib import Path

HOME = Path(sys.argv[0]).absolute().parent
MAGIC = b"stand-in plan\n"
CACHE_MAGIC = "timings of "
BUILD_IN_BANNER = (10, 4)
"""From here on the build number follows the version; that of 10.0 is not there."""
AXES_UNREAD = [
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
    *("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"),
]
"""Steps whose second input the parser of TensorRT 8.6 does not look at."""
HELP = [f"  --option{number}  Explanation" for number in range(40)]

SINCE = {
    **dict.fromkeys(("onnx", "saveEngine", "loadEngine", "minShapes", "optShapes", "maxShapes"), (8,)),
    **dict.fromkeys(("memPoolSize", "timingCacheFile", "builderOptimizationLevel", "noTF32"), (8,)),
    **dict.fromkeys(("versionCompatible", "hardwareCompatibilityLevel", "skipInference"), (8,)),
    **dict.fromkeys(("fp16", "int8"), (8,)),
    **dict.fromkeys(("bf16", "profile", "getPlanVersionOnly"), (10,)),
}
"""The flags that the build uses; the stand-in knows no other."""
VALUELESS = ("noTF32", "fp16", "bf16", "int8", "versionCompatible", "skipInference", "getPlanVersionOnly")


class RejectedError(Exception):
    """What trtexec rejects, with its own message if it has one."""


def main() -> None:
    stand_in = json.loads((HOME / "stand_in.json").read_text())
    version = tuple(stand_in["version"])
    with (HOME / "commands.jsonl").open("a") as log:
        log.write(json.dumps(sys.argv[1:]) + "\n")
    print(f"{banner('RUNNING', version)} # {' '.join(sys.argv)}", flush=True)
    options = [argument.removeprefix("--").partition("=")[::2] for argument in sys.argv[1:]]
    try:
        check(options, version)
        work(dict(options), version, stand_in["capability"])
    except RejectedError as error:
        # 8.6 explains itself after the error, later versions before it.
        lines = [say("E", str(error)), *HELP] if version < (10,) else [*HELP, say("E", str(error))]
        print("\n".join(lines), banner("FAILED", version), sep="\n", flush=True)
        sys.exit(1)
    print(banner("PASSED", version))


def banner(state: str, version: tuple[int, ...]) -> str:
    major, minor, patch = version[:3]
    number = major * 10_000 + minor * 100 + patch if major >= 10 else major * 1000 + minor * 100 + patch
    build = f" [b{version[3]}]" if version >= BUILD_IN_BANNER else ""
    return f"&&&& {state} TensorRT.trtexec [TensorRT v{number}]{build}"


def say(severity: str, text: str) -> str:
    return f"[11/21/2024-12:00:00] [{severity}] {text}"


def work(options: dict[str, str], version: tuple[int, ...], capability: str) -> None:
    print(say("I", "=== Device Information ==="))
    print(say("I", f"Compute Capability: {capability}"))
    if "getPlanVersionOnly" in options:
        facts = json.loads(Path(options["loadEngine"]).read_bytes().removeprefix(MAGIC).split(b"\n", 1)[0])
        print(say("I", f"Plan was created with TensorRT version {facts['tensorrt']}"))
        return
    use_timing_cache(options, capability)
    graph = Path(options["onnx"])
    plan = {"tensorrt": ".".join(map(str, version)), "files": [], "flags": sys.argv[1:]}
    parts = []
    for file in sorted(graph.parent.iterdir()):
        content = parsed(file, options, version) if file == graph else file.read_bytes()
        plan["files"].append([file.name, len(content)])
        parts.append(content)
    Path(options["saveEngine"]).write_bytes(MAGIC + json.dumps(plan).encode() + b"\n" + b"".join(parts))


def parsed(file: Path, options: dict[str, str], version: tuple[int, ...]) -> bytes:
    """Parse the graph as this version does."""
    import onnx  # only engines of real graphs need it, and importing takes its time

    model = onnx.load(file, load_external_data=False)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    check_shapes(options, inputs)
    if version >= (10,):
        return file.read_bytes()
    for value in (*inputs, *model.graph.output):
        if value.type.tensor_type.elem_type == onnx.TensorProto.INT64:
            raise RejectedError(f"stand-in: {value.name} would be of 32 bits in the engine")
    for node in model.graph.node:
        if node.op_type in AXES_UNREAD:
            del node.input[1:]
    return model.SerializeToString()


def check_shapes(options: dict[str, str], inputs: list) -> None:
    shaped = {item.rpartition(":")[0].strip("'") for item in options.get("optShapes", "").split(",")} - {""}
    for name in shaped - {value.name for value in inputs}:
        raise RejectedError(
            f'Cannot find input tensor with name "{name}" in the network inputs! '
            "Please make sure the input tensor names are correct."
        )
    varying = {
        value.name
        for value in inputs
        if any(not size.HasField("dim_value") for size in value.type.tensor_type.shape.dim)
    }
    if shaped and not varying:
        raise RejectedError(
            "Static model does not take explicit shapes since the shape of inference tensors ..."
        )
    if varying - shaped:
        raise RejectedError(f"stand-in: {', '.join(sorted(varying - shaped))} would get the size 1")


def check(options: list[tuple[str, str]], version: tuple[int, ...]) -> None:
    for name, value in options:
        if version < SINCE.get(name, (99,)):
            raise RejectedError(f"Unknown option: --{name}")
        if (name in VALUELESS) == bool(value):
            raise RejectedError(f"--{name} {'takes no' if value else 'needs'} value")
    by_name = dict(options)
    check_values(by_name, version)
    check_profiles(options)
    if "loadEngine" not in by_name and not {"onnx", "saveEngine"} <= by_name.keys():
        raise RejectedError("Model missing or format not recognized")


def check_values(options: dict[str, str], version: tuple[int, ...]) -> None:
    levels = ["none", "ampere+"] + (["samecomputecapability"] if version >= (10, 9) else [])
    if options.get("hardwareCompatibilityLevel", "none").lower() not in levels:
        raise RejectedError(f"Unknown hardwareCompatibilityLevel: {options['hardwareCompatibilityLevel']}.")
    pool = options.get("memPoolSize")
    if pool is not None:
        name, _, size = pool.partition(":")
        # 10.0 accepts a suffix, and multiplies its unit by mebibytes.
        digits = size if version < (10, 1) else size.rstrip("BKMG")
        if name != "workspace" or not digits.isdigit():
            raise RejectedError("conversion failure: failed to parse --memPoolSize.")
    if options.get("builderOptimizationLevel", "3") not in list("012345"):
        raise RejectedError("builderOptimizationLevel is between 0 and 5")
    for which in ("min", "opt", "max"):
        for item in filter(None, options.get(f"{which}Shapes", "").split(",")):
            name, _, sizes = item.rpartition(":")
            if not name or not all(size.isdigit() for size in sizes.split("x")):
                raise RejectedError(f"failed to parse {item}")


def check_profiles(options: list[tuple[str, str]]) -> None:
    """Require each number once, in order, with its three shapes; or three shapes without a number."""
    names = [name for name, _ in options]
    if "profile" not in names:
        counts = {names.count(f"{which}Shapes") for which in ("min", "opt", "max")}
        if max(counts) > 1:
            raise RejectedError(
                "Multiple --minShapes/--optShapes/--maxShapes without --profile are not allowed."
            )
        if len(counts) > 1:
            raise RejectedError("minShapes, optShapes and maxShapes belong together")
        return
    places = [place for place, name in enumerate(names) if name == "profile"]
    if [options[place][1] for place in places] != [str(number) for number in range(len(places))]:
        raise RejectedError("Found invalid or missing shape spec at a profile index.")
    for place in places:
        if set(names[place + 1 : place + 4]) != {"minShapes", "optShapes", "maxShapes"}:
            raise RejectedError("Found invalid or missing shape spec at a profile index.")


def use_timing_cache(options: dict[str, str], capability: str) -> None:
    file = Path(options.get("timingCacheFile", "/nonexistent"))
    if "timingCacheFile" not in options:
        return
    if file.exists():
        if file.read_text(errors="replace") != CACHE_MAGIC + capability:
            raise RejectedError("Failed to set the timing cache")
        print(say("I", f"Loaded {file.stat().st_size} bytes of timing cache from {file}"))
    else:
        print(say("W", f"Could not read timing cache from: {file}. A new timing cache will be generated."))
    file.write_text(CACHE_MAGIC + capability)


if __name__ == "__main__":
    main()
