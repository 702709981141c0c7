"""Compute SHAP values of trees (path-dependent TreeSHAP), as Triton's FIL backend does.

A leaf adds its value times the weight of each feature on its path. The weight is the feature's Shapley value
in a game of products: a feature of the coalition counts 1 if the row passes its tests and 0 if not, another
one the share of training rows that pass. It is the integral of a polynomial over [0, 1], which Gauss-Legendre
nodes compute exactly. Leaves whose paths test equally many features are computed together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

DEEPEST = 31
LESS, LESS_OR_EQUAL = 2, 3
"""treelite's numbers of the comparisons that FIL supports."""
LEAF, CATEGORIES = 0, 2
"""treelite's numbers of nodes without a test, and with a list of categories."""
MOST_ELEMENTS = 1 << 22
"""Rows of one run times tests on all paths: limits memory."""


class PathStep(NamedTuple):
    """The way from a node to one of its children."""

    node: int
    left: bool
    share: float
    """Share of the node's training rows that go this way."""


@dataclass(frozen=True)
class Leaves:
    """Leaves whose paths test the same number of features. Conditions are pairs of a leaf and a feature."""

    values: Array
    """Per leaf and class."""
    features: Array
    """Per leaf and condition, as are the shares of training rows."""
    shares: Array
    nodes: Array
    """Per step of all paths, as are the sides; steps of one condition are neighbors."""
    lefts: Array
    first_steps: Array
    """Per condition."""

    def add_to(self, result: Array, goes_left: Array) -> None:
        """Add the weights of the leaves' features to the values per row, class, and feature."""
        rows, classes, columns = result.shape
        passes = goes_left[:, self.nodes] == self.lefts
        passed = np.logical_and.reduceat(passes, self.first_steps, axis=1)
        passed = passed.reshape(rows, *self.shares.shape).astype(np.float64)
        others = np.zeros_like(passed)
        nodes, weights = np.polynomial.legendre.leggauss((self.shares.shape[1] + 1) // 2)
        for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
            factors = self.shares * (1 - node) + passed * node
            others += weight * factors.prod(axis=2, keepdims=True) / factors
        own = (passed - self.shares) * others
        cells = (np.arange(rows)[:, np.newaxis, np.newaxis] * columns + self.features).ravel()
        for index in range(classes):
            amounts = (own * self.values[:, index, np.newaxis]).ravel()
            result[:, index] += np.bincount(cells, amounts, rows * columns).reshape(rows, columns)


class TreeShap:
    """SHAP values of a treelite model; raises ValueError for models of which FIL computes none."""

    def __init__(self, model: Any) -> None:
        header = model.get_header_accessor()
        self.features = int(model.num_feature)
        self.classes = int(header.get_field("num_class")[0])
        bases = np.asarray(header.get_field("base_scores"), np.float64)[: self.classes]
        if len(set(bases.tolist())) > 1:
            raise ValueError("Vector base_scores not supported")
        per_class = int(header.get_field("leaf_vector_shape")[1]) == 1
        averaged = int(header.get_field("average_tree_output")[0])
        rounds = model.num_tree / self.classes if per_class else model.num_tree
        self._scale = 1 / rounds if averaged else 1.0
        trees = [model.get_tree_accessor(index) for index in range(model.num_tree)]
        self._tests = NodeTests(trees)
        self._average = np.zeros(self.classes)
        paths: dict[int, list[tuple[Array, dict[int, list[PathStep]]]]] = {}
        for index, tree in enumerate(trees):
            for value, path in self._leaves(tree, index % self.classes, self._tests.first_nodes[index]):
                self._average += value * np.prod([step.share for steps in path.values() for step in steps])
                paths.setdefault(len(path), []).append((value, path))
        self._groups = [_stack(leaves) for size, leaves in paths.items() if size]
        self._average = self._average * self._scale + bases
        steps = sum(len(group.nodes) for group in self._groups)
        self._most_rows = max(1, MOST_ELEMENTS // max(1, steps))

    def values(self, rows: Array) -> Array:
        """Return one value per row, class, and feature, and at last the value of an average row."""
        result = np.zeros((len(rows), self.classes, self.features + 1))
        for first in range(0, len(rows), self._most_rows):
            part = slice(first, first + self._most_rows)
            goes_left = self._tests.go_left(rows[part].astype(np.float64))
            for group in self._groups:
                group.add_to(result[part], goes_left)
        result *= self._scale
        result[:, :, -1] = self._average
        return result.astype(np.float32)

    def _leaves(
        self, tree: Any, group: int, first_node: int
    ) -> Iterator[tuple[Array, dict[int, list[PathStep]]]]:
        """Yield the value per class of each leaf, and the steps of its path per feature."""
        fields = {name: _field(tree, name) for name in ("node_type", "cleft", "cright", "split_index")}
        counts = node_counts(tree)
        values = self._leaf_values(tree, group)
        waiting: list[tuple[int, list[PathStep]]] = [(0, [])]
        while waiting:
            node, path = waiting.pop()
            if fields["node_type"][node] == LEAF:
                by_feature: dict[int, list[PathStep]] = {}
                for step in path:
                    feature = int(fields["split_index"][step.node - first_node])
                    by_feature.setdefault(feature, []).append(step)
                yield values[node], by_feature
                continue
            if len(path) >= DEEPEST:
                raise ValueError(
                    "Tree depths above 32 not supported. Shap cannot be considered accurate at this depth."
                )
            for side in ("cleft", "cright"):
                child = int(fields[side][node])
                step = PathStep(first_node + node, side == "cleft", counts[child] / counts[node])
                waiting.append((child, [*path, step]))

    def _leaf_values(self, tree: Any, group: int) -> Array:
        """Return the value per node and class; those of inner nodes mean nothing."""
        scalars = _field(tree, "leaf_value")
        values = np.zeros((len(scalars), self.classes))
        values[:, group] = scalars
        vectors, firsts = _field(tree, "leaf_vector"), _field(tree, "leaf_vector_begin")
        for node in np.flatnonzero(_field(tree, "leaf_vector_end") > firsts):
            values[node] = vectors[firsts[node] : firsts[node] + self.classes]
        return values


class NodeTests:
    """The tests of all nodes of all trees."""

    def __init__(self, trees: list[Any]) -> None:
        sizes = [len(_field(tree, "node_type")) for tree in trees]
        self.first_nodes = [0, *np.cumsum(sizes).tolist()]
        kinds, comparisons = _joined(trees, "node_type"), _joined(trees, "cmp")
        if not np.isin(comparisons[(kinds != LEAF) & (kinds != CATEGORIES)], (LESS, LESS_OR_EQUAL)).all():
            raise ValueError("Unsupported comparison operator")
        self._features = np.maximum(_joined(trees, "split_index"), 0)
        self._thresholds = _joined(trees, "threshold").astype(np.float64)
        self._inclusive = comparisons == LESS_OR_EQUAL
        self._default_left = _joined(trees, "default_left").astype(bool)
        self._by_category = np.flatnonzero(kinds == CATEGORIES)
        self._match_is_left = ~_joined(trees, "category_list_right_child")[self._by_category].astype(bool)
        lists = [
            _field(tree, "category_list")[first:last].astype(np.int64)
            for tree in trees
            for first, last, kind in zip(
                _field(tree, "category_list_begin"),
                _field(tree, "category_list_end"),
                _field(tree, "node_type"),
                strict=True,
            )
            if kind == CATEGORIES
        ]
        self._span = 1 + max((int(one.max(initial=0)) for one in lists), default=0)
        self._categories = np.concatenate(
            [np.empty(0, np.int64), *(one + index * self._span for index, one in enumerate(lists))]
        )

    def go_left(self, rows: Array) -> Array:
        """Return per row and node whether the row goes to the left child."""
        values = rows[:, self._features]
        with np.errstate(invalid="ignore"):
            left = np.where(self._inclusive, values <= self._thresholds, values < self._thresholds)
            if len(self._by_category):
                listed = values[:, self._by_category]
                inside = (listed >= 0) & (listed < self._span)
                keys = np.where(inside, listed, 0).astype(np.int64)
                keys += np.arange(len(self._by_category)) * self._span
                matches = inside & np.isin(keys, self._categories)
                left[:, self._by_category] = matches == self._match_is_left
        return np.where(np.isnan(values), self._default_left, left)


def node_counts(tree: Any) -> Array:
    """Return the training rows or their weights per node; raise ValueError if a node has none."""
    for name in ("sum_hess", "data_count"):
        present = _field(tree, f"{name}_present")
        if len(present) and present.all():
            counts = _field(tree, name).astype(np.float64)
            if not (counts > 0).all():
                raise ValueError("a node has no training rows")
            return counts
    if int(_field(tree, "num_nodes")[0]) == 1:
        return np.ones(1)
    raise ValueError("Model does not have node statistics.")


def _stack(leaves: list[tuple[Array, dict[int, list[PathStep]]]]) -> Leaves:
    """Put leaves whose paths test the same number of features into arrays."""
    conditions = [steps for _, path in leaves for steps in path.values()]
    steps = [step for condition in conditions for step in condition]
    shares = [np.prod([step.share for step in condition]) for condition in conditions]
    return Leaves(
        values=np.stack([value for value, _ in leaves]),
        features=np.array([list(path) for _, path in leaves]),
        shares=np.reshape(shares, (len(leaves), -1)),
        nodes=np.array([step.node for step in steps]),
        lefts=np.array([step.left for step in steps]),
        first_steps=np.cumsum([0, *(len(condition) for condition in conditions[:-1])]),
    )


def _field(tree: Any, name: str) -> Array:
    return np.asarray(tree.get_field(name))


def _joined(trees: list[Any], name: str) -> Array:
    return np.concatenate([_field(tree, name) for tree in trees])
