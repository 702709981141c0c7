"""TS3xx: model builds."""

from __future__ import annotations

from collections.abc import Mapping

from tritonstack.reference.error_codes.kinds import Kind

BUILDS: Mapping[str, Kind] = {
    "TS301": Kind(
        "Model source not available",
        "The source of the model does not exist, is gated or private, or cannot be reached. Check the URL "
        "in `source`, the credentials, and the network.",
    ),
    "TS302": Kind(
        "Source files missing or invalid",
        "The source lacks a file that the recipe needs, or one of its files is damaged or has a name that "
        "is not allowed. Download or copy the model again, and check `recipe.file`.",
    ),
    "TS303": Kind(
        "Source changed",
        "A file has another checksum than expected, or changed during the build. Fetch it again, and "
        "build when nothing writes there.",
    ),
    "TS304": Kind(
        "model.yaml contradicts the source",
        "A field of `model.yaml` differs from what the files of the model state. Remove the field to use "
        "the model's own value, or state the reason under `overrides`.",
    ),
    "TS305": Kind(
        "Model cannot be exported",
        "The framework cannot load the model or export its graph. Check that the configuration, the "
        "tokenizer, and the weights belong together; the message quotes the library.",
    ),
    "TS306": Kind(
        "ONNX graph not supported",
        "The ONNX file is invalid, or uses operators, types, or versions that Triton's ONNX Runtime or "
        "the recipe does not support. Export it again as the message says.",
    ),
    "TS307": Kind(
        "TorchScript module not supported",
        "PyTorch cannot load or run the module, or its inputs or outputs are not tensors. Wrap it in a "
        "module that takes and returns tensors.",
    ),
    "TS308": Kind(
        "Tree model not supported",
        "The file is not a tree model that the FIL backend can serve, or it does not match the recipe. "
        "Save it again with its library's own function.",
    ),
    "TS309": Kind(
        "Model code failed",
        "Python code of the model cannot be imported, is incomplete, or raised an exception. Correct the "
        "code at the place in the message.",
    ),
    "TS310": Kind(
        "TensorRT cannot build the engine",
        "TensorRT failed, or the graph or its profiles do not fit the TensorRT version. Change "
        "`tensorrt.profiles`, choose another Triton release, or use `format: onnx`.",
    ),
    "TS311": Kind(
        "Build machine does not fit the target",
        "The machine has no GPU, another GPU, another TensorRT, or an older driver than the build needs. "
        "Build in AWS, or in the image of the Triton release.",
    ),
    "TS312": Kind(
        "Answers differ from the framework",
        "The exported model gives other answers than the original framework, beyond the tolerance. Use a "
        "higher precision, or widen `accept` if the difference is acceptable.",
    ),
    "TS313": Kind(
        "Answers depend on the size or batch",
        "The graph gives wrong answers at sizes or batches that the test inputs do not have, usually "
        "because a size became a constant during export. Compute sizes with tensor operations, or declare "
        "them fixed.",
    ),
    "TS314": Kind(
        "Test input does not match the model",
        "A test input lacks a tensor, has an unknown one, has another shape or type than the model takes, "
        "or has no expected answer.",
    ),
    "TS315": Kind(
        "Declaration contradicts the model",
        "A tensor, batch size, or Triton option in `model.yaml` contradicts the model that was built. "
        "Correct or remove the declaration.",
    ),
    "TS316": Kind(
        "Invalid config.pbtxt",
        "The file named by `triton.config` is not a valid Triton model configuration. The line is that of "
        "the protobuf parser.",
    ),
    "TS317": Kind(
        "config.pbtxt contradicts the model",
        "A field of your `config.pbtxt` differs from the model or from `model.yaml`. Remove the field, or "
        "make both equal.",
    ),
    "TS318": Kind(
        "Python packages cannot be packed",
        "The packages of a Python model cannot be resolved, downloaded, or packed, or the given "
        "environment archive is not usable. Choose versions with Linux x86-64 wheels for the server's "
        "Python.",
    ),
    "TS319": Kind(
        "Artifact cannot be served",
        "Triton did not load the packed artifact, did not answer, or the repository breaks a rule of "
        "SageMaker. Read the end of the server's log in the message.",
    ),
    "TS320": Kind(
        "Library raised an exception",
        "A library, or code of the model, raised an exception that tritonstack does not know. The message "
        "quotes it; the build log has the traceback.",
    ),
    "TS321": Kind(
        "Disk or memory too small",
        "The build needs more disk space or memory than is available, or the system killed it. Free "
        "space, build fewer models at once, or use a larger machine.",
    ),
    "TS322": Kind(
        "Build failed",
        "One or more builds failed. The message has a part per build, each with its own code, and the "
        "path of the log.",
    ),
    "TS323": Kind(
        "Build job failed",
        "A build job in AWS could not be started, ended with an error, was stopped, or exceeds a quota. "
        "The message names its log; `tritonstack quotas` lists the quotas.",
    ),
    "TS324": Kind(
        "Build infrastructure not deployed",
        "The stack that builds models in AWS is missing, incomplete, or older than the environment's "
        "file. Deploy it again, or build with `--local`.",
    ),
    "TS325": Kind(
        "Custom image cannot be built",
        "Docker could not build or push the image of an endpoint, or the image is gone. Correct the "
        "Dockerfile, and check that the base image can be pulled.",
    ),
}
