"""Resource types that are known and refused: each with the sentence that says why.

A type that stands neither here nor among the providers is refused too, as unrecognised.
"""

from collections.abc import Mapping

from local_cloud.sagemaker.refusals import NO_COMPONENTS

REFUSED_TYPES: Mapping[str, str] = {
    "AWS::SageMaker::InferenceComponent": (
        f"The embedded cloud does not offer inference components: {NO_COMPONENTS}."
    ),
}
