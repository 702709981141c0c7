"""Load scikit-learn's pickles, which only a trusted source may have."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from model_build.errors import ExportError
from model_build.library_errors import brief, known_help


def load_pickle(file: Path, *, code: str) -> Any:
    """Load a model of scikit-learn saved by the version of this build."""
    import joblib  # noqa: PLC0415 - imports slowly, and only some models need it
    from sklearn.exceptions import InconsistentVersionWarning  # noqa: PLC0415 - as above

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", InconsistentVersionWarning)
            # joblib reads plain pickles too.
            estimator = joblib.load(file)
    except InconsistentVersionWarning as error:
        raise ExportError(
            f"{file.name} was saved by scikit-learn {error.original_sklearn_version}; the build has "
            f"{error.current_sklearn_version}, which may load it wrongly",
            remedy="save it again with this version, or convert it with treelite in the training environment",
            code=code,
        ) from error
    except Exception as error:
        raise ExportError(
            f"{file.name} cannot be unpickled: {type(error).__name__}: {brief(error)}",
            remedy=known_help(error) or "save it again with joblib.dump and the build's scikit-learn version",
            code=code,
        ) from error
    if not type(estimator).__module__.startswith("sklearn."):
        raise ExportError(
            f"{file.name} holds a {type(estimator).__module__}.{type(estimator).__name__}, "
            "not a scikit-learn model",
            remedy="save the fitted estimator alone with joblib.dump; XGBoost and LightGBM models with their "
            "own save_model",
            code=code,
        )
    return estimator
