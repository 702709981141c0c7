"""TS3xx: model builds."""

from __future__ import annotations

from collections.abc import Mapping

from tritonstack.reference.error_codes.kinds import Kind

BUILDS: Mapping[str, Kind] = {
    "TS301": Kind(
        "Model source not available",
        "The source of the model does not exist, is gated or private, or cannot be reached. Check the "
        "URL in `source`, the credentials, and the network.",
    ),
    "TS302": Kind(
        "Source files missing or invalid",
        "The source lacks a file that the recipe needs, or one of its files is damaged or has a name "
        "that is not allowed. Download or copy the model again, and check `recipe.file`.",
    ),
    "TS303": Kind(
        "Source changed or can change",
        "A file has another checksum than expected, or changed during the build. Or, as a warning, "
        "`source` names a branch or a tag, which can move without a change of the lock: write the full "
        "commit hash.",
    ),
    "TS304": Kind(
        "model.yaml contradicts the model",
        "A field of `model.yaml` differs from what the files of the model state, or from the model that "
        "was built. Remove the field to use the model's own value, correct it, or state the reason "
        "under `overrides`.",
    ),
    "TS305": Kind(
        "Model cannot be exported",
        "The framework cannot load the model or export its graph. Check that the configuration, the "
        "tokenizer, and the weights belong together; the message quotes the library.",
    ),
    "TS306": Kind(
        "Model not supported by the recipe",
        "The file is damaged or of another kind, or the model uses something that the recipe or "
        "Triton's backend does not support, such as an operator, an architecture, or a tokenizer. Save "
        "or export it again as the message says, or use another recipe.",
    ),
    "TS309": Kind(
        "Model code failed",
        "Python code of the model, or a library that it calls, cannot be imported, is incomplete, or "
        "raised an exception; or a file beside it shadows a module. Correct the code at the place in "
        "the message; the build log has the traceback.",
    ),
    "TS310": Kind(
        "TensorRT cannot build the engine",
        "TensorRT failed, or the graph or its profiles do not fit the TensorRT version. Change "
        "`tensorrt.profiles`, choose another Triton release, or use `format: onnx`.",
    ),
    "TS311": Kind(
        "Machine does not fit the target",
        "This machine has no GPU, another GPU, another TensorRT, or an older driver than the model "
        "needs. Build in AWS, or in the image of the Triton release.",
    ),
    "TS312": Kind(
        "Answers differ from the framework",
        "The model gives other answers than the original framework, beyond the tolerance, perhaps only "
        "at other sizes or batches, where a size became a constant during export. Compute sizes with "
        "tensor operations, use a higher precision, or widen `accept` if the difference is acceptable.",
    ),
    "TS314": Kind(
        "Test input does not match the model",
        "A test input lacks a tensor, has an unknown one, has another shape or type than the model "
        "takes, or has no expected answer.",
    ),
    "TS316": Kind(
        "Invalid config.pbtxt",
        "A `config.pbtxt` is not a valid Triton model configuration, has values that Triton rejects, or "
        "contradicts the model's file, its folder, or `model.yaml`. Correct or remove the field.",
    ),
    "TS318": Kind(
        "Python packages do not fit",
        "The packages of a Python model have no exact version, cannot be resolved or packed, or are for "
        "another Python or NumPy than the server's. Write `name==version` with wheels for Linux x86-64, "
        "and check `recipe.pythons`. If the package index is unreachable, check the network and pip's "
        "settings.",
    ),
    "TS319": Kind(
        "Artifact cannot be served",
        "Triton did not load the packed artifact, did not answer a test input, or did not end its "
        "responses, or the repository breaks a rule of SageMaker. Read the end of the server's log in "
        "the message.",
    ),
    "TS322": Kind(
        "Build failed",
        "One or more builds failed. The message has a part per build, each with its own code, and the "
        "path of the log.",
    ),
    "TS323": Kind(
        "Build job failed",
        "A build job in AWS could not be started, ended with an error, was stopped, or exceeds a quota, "
        "or the build stack is missing or older than the environment's file. The message names its log; "
        "`tritonstack quotas` lists the quotas. `--local` builds on this machine.",
    ),
    "TS325": Kind(
        "Custom image cannot be used",
        "Docker could not build or push the image of an endpoint, the image is gone, or it has an OCI "
        "manifest, which SageMaker does not accept. Correct the Dockerfile, check that the base image "
        "can be pulled, and disable the containerd image store of Docker.",
    ),
    "TS326": Kind(
        "Repository layout not accepted",
        "The archive or folder of a Triton model does not have the layout <model>/config.pbtxt and "
        "<model>/<version>/<files> at its top level, lacks a file, or has links, unsafe names, or files "
        "of other tools. Add, move, or remove what the message names.",
    ),
    "TS332": Kind(
        "Model setting with a surprising effect",
        "The model loads, but a setting or file has an effect that people rarely expect, such as idle "
        "instances or code that runs from a pickle. Change it, or ignore the warning.",
    ),
    "TS340": Kind(
        "Model cannot be imported",
        "`tritonstack import` found no Triton model, Merlin export, or MLflow model, or several, or one "
        "with a part that no recipe serves. Name the folder or archive of one model, choose one with "
        "`--model`, or save the model as the help says.",
    ),
}
