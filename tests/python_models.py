"""Source code of small models for Triton's Python backend."""

_MODEL = """
import os
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            error = None
            {statements}
            if error is not None:
                responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(error)))
                continue
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", {result})]))
        return responses
"""


def python_model(result: str, *statements: str) -> str:
    """Return a model that computes `y` from `x`; `statements` run first, per request, and may set `error`."""
    return _MODEL.format(result=result, statements="\n            ".join(statements))
