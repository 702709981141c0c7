"""TS2xx: contradictions between project files."""

from __future__ import annotations

from collections.abc import Mapping

from tritonstack.reference.error_codes.kinds import Kind

PROJECT: Mapping[str, Kind] = {
    "TS201": Kind(
        "Model not found",
        "An endpoint, an ensemble, or a lock names a model that has no folder in `models/`. Correct the "
        "name, or add the model.",
    ),
    "TS202": Kind(
        "Environment not found",
        "A file names an environment that has no file in `environments/`. Correct the name, or add the file.",
    ),
    "TS203": Kind(
        "Name does not match the file",
        "The `name` in a file differs from the name of its file or folder. Change one of the two.",
    ),
    "TS204": Kind(
        "Conflicting names",
        "Two resources would get the same name in AWS, or a name is reserved. Rename one of them.",
    ),
    "TS205": Kind(
        "Referenced file not found",
        "A key of `model.yaml` names a file that does not exist beside it. Add the file, or correct its "
        "name.",
    ),
    "TS206": Kind(
        "Not available in the region",
        "AWS does not offer the image, instance type, or feature in the environment's region or zones, or "
        "it is not known whether it does. Or a quota of the account is too low. Choose another region, "
        "confirm that AWS has added it since, or request the quota.",
    ),
    "TS207": Kind(
        "GPU or driver not supported by the Triton release",
        "The GPU or the host driver of the instance type does not work with the CUDA version of the "
        "Triton release. Choose another release, instance type, or `inference_ami`.",
    ),
    "TS208": Kind(
        "No build machine for the GPU",
        "Models for this GPU are built on the same GPU, and AWS has no build machine with one in the "
        "region. Name a machine under `builds.machines`, or build on your own machine.",
    ),
    "TS209": Kind(
        "Endpoint kind does not match the model",
        "The `kind` of the endpoint differs from what the recipe of its model produces, such as a single "
        "model or an ensemble. Change the kind, or `recipe.input` or `recipe.calls`.",
    ),
    "TS210": Kind(
        "Model does not run on the instance type",
        "The precision or format of the model needs a GPU or a CPU, and the instance type has the other, "
        "or no instance type runs all models of an ensemble.",
    ),
    "TS211": Kind(
        "Image cannot serve the model",
        "The image of the endpoint lacks what the model needs: a backend, a newer Triton release, a "
        "setting, or its Dockerfile. Choose another `triton_release` or `image`.",
    ),
    "TS212": Kind(
        "Python or NumPy version does not match",
        "A Python model is packed for another Python or NumPy version than the server has. Add the "
        "version to `recipe.pythons`, or pin a matching NumPy.",
    ),
    "TS213": Kind(
        "Requirement without an exact version",
        "A line of a model's requirements has no exact version, so two builds could get different "
        "packages. Write `name==version`.",
    ),
    "TS214": Kind(
        "Invalid ensemble",
        "The steps of an ensemble do not fit together: a tensor is missing or unused, types or batching "
        "differ, or a step streams or keeps state.",
    ),
    "TS215": Kind(
        "Requests too large for the endpoint",
        "A full batch of the model exceeds the largest request that SageMaker or Triton accepts. Lower "
        "the batch size, use an asynchronous endpoint, or raise Triton's limit.",
    ),
    "TS216": Kind(
        "Module is shadowed",
        "A Python file beside `model.py` has the name of another module, so `import` finds only one of "
        "them. Rename the file.",
    ),
    "TS217": Kind(
        "Pickle is not trusted",
        "The model contains a pickle, which can run any code when loaded. Convert it to safetensors, "
        "ONNX, or another data format; if you trust the source, set `trust: {pickle: <reason>}`.",
    ),
    "TS218": Kind(
        "Previews are not isolated",
        "Pull requests could change more than their own preview: the template lacks a permissions "
        "boundary, shares a bootstrap with an environment, or a name looks like a preview's.",
    ),
    "TS219": Kind(
        "Delivery contradicts the environments",
        "The order or the environments in the delivery file do not fit the `promotion` sections, or too "
        "many environments share one CDK bootstrap.",
    ),
    "TS220": Kind(
        "File is ignored",
        "The name of a file or folder means that nothing reads it: environments, templates, and locks end "
        "with `.yaml`, and each folder in `models/` has a `model.yaml`. Rename it, or remove it.",
    ),
    "TS221": Kind(
        "Source revision can move",
        "A warning: `source` names a branch, a tag, or a short commit on the Hugging Face Hub. When it "
        "moves, the lock does not change. Write the full commit hash.",
    ),
}
