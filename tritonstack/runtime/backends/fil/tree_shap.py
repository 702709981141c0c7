"""Compute SHAP values of trees (path-dependent TreeSHAP), as Triton's FIL backend does.

A leaf adds its value times the weight of each feature on its path. The weight is the feature's Shapley value
in a game of products: a feature of the coalition counts 1 if the row passes its tests and 0 if not, another
one the share of training rows that pass. It is the integral of a polynomial over [0, 1], which Gauss-Legendre
nodes compute exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

DEEPEST = 31
LESS, LESS_OR_EQUAL = 2, 3
"""treelite's numbers of the comparisons that FIL supports."""
LEAF, CATEGORIES = 0, 2
"""treelite's numbers of nodes without a test, and with a list of categories."""


@dataclass(frozen=True)
class Split:
    """A test on the path to a leaf."""

    feature: int
    threshold: float
    inclusive: bool
    """Whether the threshold itself passes to the left."""
    categories: Array | None
    """The matching categories, instead of a threshold."""
    to_match: bool
    """Whether the path continues on the side of smaller values or of matching categories."""
    with_missing: bool
    """Whether rows without a value follow the path."""
    share: float
    """Share of the training rows that follow the path."""

    def passes(self, values: Array) -> Array:
        """Return the rows that follow the path."""
        if self.categories is not None:
            found = np.isin(np.trunc(values), self.categories) & (values >= 0)
        else:
            found = values <= self.threshold if self.inclusive else values < self.threshold
        return np.where(np.isnan(values), self.with_missing, found == self.to_match)


class TreeShap:
    """SHAP values of a treelite model; raises ValueError for models of which FIL computes none."""

    def __init__(self, model: Any) -> None:
        header = model.get_header_accessor()
        self.features = int(model.num_feature)
        self.classes = int(header.get_field("num_class")[0])
        bases = np.asarray(header.get_field("base_scores"), np.float64)[: self.classes]
        if len(set(bases.tolist())) > 1:
            raise ValueError("Vector base_scores not supported")
        self._base = bases
        per_class = int(header.get_field("leaf_vector_shape")[1]) == 1
        self._scale = self.classes / model.num_tree if per_class else 1 / model.num_tree
        if not int(header.get_field("average_tree_output")[0]):
            self._scale = 1.0
        self._leaves = [
            (path, value)
            for index in range(model.num_tree)
            for path, value in self._tree(model.get_tree_accessor(index), index % self.classes)
        ]

    def values(self, rows: Array) -> Array:
        """Return one value per row, class, and feature, and at last the value of an average row."""
        wide = rows.astype(np.float64)
        found = np.zeros((len(rows), self.classes, self.features + 1))
        with np.errstate(invalid="ignore"):
            for path, value in self._leaves:
                _add_leaf(found, wide, path, value)
        found *= self._scale
        found[:, :, -1] += self._base
        return found.astype(np.float32)

    def _tree(self, tree: Any, group: int) -> Iterator[tuple[list[Split], Array]]:
        """Yield the path and the values per class of each leaf."""
        nodes = {
            name: np.asarray(tree.get_field(name))
            for name in (
                *("node_type", "cleft", "cright", "split_index", "default_left", "threshold", "cmp"),
                *("category_list_right_child", "category_list", "category_list_begin", "category_list_end"),
                *("leaf_value", "leaf_vector", "leaf_vector_begin", "leaf_vector_end"),
            )
        }
        counts = node_counts(tree)
        waiting: list[tuple[int, list[Split]]] = [(0, [])]
        while waiting:
            node, path = waiting.pop()
            if nodes["node_type"][node] == LEAF:
                yield path, self._leaf(nodes, node, group)
                continue
            if len(path) >= DEEPEST:
                raise ValueError(
                    "Tree depths above 32 not supported. Shap cannot be considered accurate at this depth."
                )
            for side in ("cleft", "cright"):
                child = int(nodes[side][node])
                split = _split(nodes, node, left=side == "cleft", share=counts[child] / counts[node])
                waiting.append((child, [*path, split]))

    def _leaf(self, nodes: dict[str, Array], node: int, group: int) -> Array:
        first, last = (int(nodes[name][node]) for name in ("leaf_vector_begin", "leaf_vector_end"))
        if last > first:
            return nodes["leaf_vector"][first:last].astype(np.float64)
        found = np.zeros(self.classes)
        found[group] = nodes["leaf_value"][node]
        return found


def node_counts(tree: Any) -> Array:
    """Return the training rows or their weights per node; raise ValueError if a node has none."""
    for name in ("sum_hess", "data_count"):
        present = np.asarray(tree.get_field(f"{name}_present"))
        if len(present) and present.all():
            counts = np.asarray(tree.get_field(name), np.float64)
            if not (counts > 0).all():
                raise ValueError("a node has no training rows")
            return counts
    if int(np.asarray(tree.get_field("num_nodes"))[0]) == 1:
        return np.ones(1)
    raise ValueError("Model does not have node statistics.")


def _split(nodes: dict[str, Array], node: int, *, left: bool, share: float) -> Split:
    categories = None
    if nodes["node_type"][node] == CATEGORIES:
        first, last = (int(nodes[name][node]) for name in ("category_list_begin", "category_list_end"))
        categories = nodes["category_list"][first:last]
    elif nodes["cmp"][node] not in (LESS, LESS_OR_EQUAL):
        raise ValueError("Unsupported comparison operator")
    on_right = categories is not None and bool(nodes["category_list_right_child"][node])
    return Split(
        feature=int(nodes["split_index"][node]),
        threshold=float(nodes["threshold"][node]),
        inclusive=int(nodes["cmp"][node]) == LESS_OR_EQUAL,
        categories=categories,
        to_match=left != on_right,
        with_missing=left == bool(nodes["default_left"][node]),
        share=float(share),
    )


def _add_leaf(found: Array, rows: Array, path: list[Split], value: Array) -> None:
    shares: dict[int, float] = {}
    passing: dict[int, Array] = {}
    for split in path:
        own = split.passes(rows[:, split.feature])
        shares[split.feature] = shares.get(split.feature, 1.0) * split.share
        passing[split.feature] = passing[split.feature] & own if split.feature in passing else own
    found[:, :, -1] += np.prod(list(shares.values())) * value
    if not shares:
        return
    features = list(shares)
    share = np.array(list(shares.values()))[:, np.newaxis]
    passed = np.stack([passing[feature] for feature in features]).astype(np.float64)
    nodes, weights = np.polynomial.legendre.leggauss((len(features) + 1) // 2)
    factors = [share * (1 - node) + passed * node for node in (nodes + 1) / 2]
    others = sum(weight / 2 * one.prod(axis=0) / one for weight, one in zip(weights, factors, strict=True))
    own = (passed - share) * others
    for feature, amount in zip(features, own, strict=True):
        found[:, :, feature] += amount[:, np.newaxis] * value
