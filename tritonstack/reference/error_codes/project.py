"""TS2xx: contradictions between project files."""

from __future__ import annotations

from collections.abc import Mapping

from tritonstack.reference.error_codes.kinds import Kind

PROJECT: Mapping[str, Kind] = {
    "TS201": Kind(
        "Reference not found",
        "A file names a model, an environment, or a file that does not exist in the project. Correct "
        "the name, or add what it names.",
    ),
    "TS204": Kind(
        "Name cannot be used",
        "Two resources would get the same name in AWS, a name is reserved, or `name` differs from the "
        "name of its file or folder. Or the name of a file means that nothing reads it: environments, "
        "templates, and locks end with `.yaml`, and each folder in `models/` has a `model.yaml`. Rename "
        "one of them.",
    ),
    "TS206": Kind(
        "Not available in the region",
        "AWS does not offer the image, instance type, build machine, or feature in the environment's "
        "region or zones, or it is not known whether it does. Or a quota of the account is too low. "
        "Choose another region, confirm that AWS has added it since, request the quota, or build on "
        "your own machine.",
    ),
    "TS209": Kind(
        "Endpoint does not fit the model",
        "The kind, the image, the hosting mode, or the request limit of the endpoint does not fit what "
        "the recipe of its model produces. Change the endpoint, such as its `kind`, `triton_release`, "
        "or `image`, or the model as the help says.",
    ),
    "TS214": Kind(
        "Models do not fit together",
        "The steps of an ensemble, or the calls between models, do not fit together: a model or tensor "
        "is missing, unused, or not declared, types or batching differ, or a step streams, keeps state, "
        "or calls models itself. Correct the steps, or `recipe.calls`.",
    ),
    "TS217": Kind(
        "Pickle is not trusted",
        "The model contains a pickle, which can run any code when loaded. Convert it to safetensors, "
        "ONNX, or another data format; if you trust the source, set `trust: {pickle: <reason>}`.",
    ),
    "TS219": Kind(
        "Delivery contradicts the environments",
        "The order or the environments in the delivery file do not fit the `promotion` sections, too "
        "many environments share one CDK bootstrap, or pull requests could change more than their own "
        "preview. Correct the delivery file or the template.",
    ),
}
