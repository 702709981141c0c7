"""Prepare trees for SHAP values in Triton's FIL backend; reject those that it explains wrongly or not at all.

Follows FIL of Triton 23.12 to 26.06, on CPUs and GPUs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
DEEPEST = 31
AGAIN = "train the model again, or remove `shap`"


def missing_for_shap(model: Any) -> tuple[str, str] | None:
    """Return why FIL cannot explain a treelite model, and the remedy; None if it can."""
    header = model.get_header_accessor()
    classes = int(header.get_field("num_class")[0])
    order = np.asarray(header.get_field("class_id"))
    if not np.array_equal(order, np.arange(model.num_tree) % classes):
        return (
            "its trees are not in the order of the classes, which FIL assumes for SHAP values",
            "train with `num_parallel_tree=1`, or remove `shap`",
        )
    for index in range(model.num_tree):
        tree = model.get_tree_accessor(index)
        left_nodes, right = (np.asarray(tree.get_field(name)) for name in ("cleft", "cright"))
        if _depth(left_nodes, right) > DEEPEST:
            return f"tree {index} is deeper than {DEEPEST} levels", f"limit `max_depth`, and {AGAIN}"
        if len(left_nodes) > 1 and not _has_counts(tree):
            return (
                f"tree {index} has a node without training rows, or the file does not count them",
                f"raise `min_child_weight`, and {AGAIN}",
            )
    return None


def share_base_scores(model: Any) -> None:
    """Move base scores that differ per class into the leaves of each class's first tree; answers stay.

    On GPUs, FIL adds the first class's base score to the SHAP values of all classes. On CPUs, releases before
    26.01 do not load such models.
    """
    header = model.get_header_accessor()
    bases = np.asarray(header.get_field("base_scores"))
    if len(set(bases.tolist())) < 2:
        return
    for index, base in enumerate(bases):
        tree = model.get_tree_accessor(index)
        values = np.array(tree.get_field("leaf_value"))
        values[np.asarray(tree.get_field("cleft")) < 0] += base
        tree.set_field("leaf_value", values)
    header.set_field("base_scores", np.zeros_like(bases))


def _depth(left_nodes: Array, right: Array) -> int:
    """Return the number of tests on the longest path."""
    level, depth = np.array([0]), -1
    while level.size:
        children = np.concatenate([left_nodes[level], right[level]])
        level, depth = children[children >= 0], depth + 1
    return depth


def _has_counts(tree: Any) -> bool:
    for name in ("sum_hess", "data_count"):
        present = np.asarray(tree.get_field(f"{name}_present"))
        if len(present) and present.all():
            return bool((np.asarray(tree.get_field(name)) > 0).all())
    return False
