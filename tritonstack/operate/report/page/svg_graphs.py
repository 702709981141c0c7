"""Draw directed graphs as SVG: boxes in layers from left to right, with a text on each edge."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tritonstack.operate.report.svg_charts import ChartColors

_LINE, _BEND, _PAD, _MARGIN = 16, 40, 14, 12
_CHARACTER = 7.0
"""Width of a character at 12 px, on average."""


@dataclass(frozen=True)
class GraphNode:
    """A box; `detail` is a second, smaller line."""

    id: str
    title: str
    detail: str = ""


@dataclass(frozen=True)
class GraphEdge:
    """An arrow between two nodes, with one line of text per item."""

    source: str
    target: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class _Place:
    """The box of a node, or a point where a long edge passes a layer."""

    left: float
    middle: float
    width: float
    height: float = 0.0

    @property
    def right(self) -> float:
        return self.left + self.width


def draw_graph(
    title: str, nodes: Sequence[GraphNode], edges: Sequence[GraphEdge], colors: ChartColors
) -> str:
    """Return an SVG element. The graph has no cycle, and each edge names nodes."""
    layers = _layers(nodes, edges)
    places, width, height = _placed(nodes, edges, layers, _rows(nodes, edges, layers))
    parts = [*_edges(edges, places, layers, colors), *_boxes(nodes, places, colors)]
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" role="img" '
        f'aria-label="{escape(title)}" font-size="12">{"".join(parts)}</svg>'
    )


def _layers(nodes: Sequence[GraphNode], edges: Sequence[GraphEdge]) -> dict[str, int]:
    """Return the length of the longest path to each node."""
    layers = {node.id: 0 for node in nodes}
    for _ in nodes:
        for edge in edges:
            layers[edge.target] = max(layers[edge.target], layers[edge.source] + 1)
    return layers


def _passed(edge: GraphEdge, layers: Mapping[str, int]) -> list[str]:
    """Return the ids of what an edge passes: its nodes, and a point in each layer between them."""
    between = range(layers[edge.source] + 1, layers[edge.target])
    return [edge.source, *(f"{edge.source}>{edge.target}@{layer}" for layer in between), edge.target]


def _rows(
    nodes: Sequence[GraphNode], edges: Sequence[GraphEdge], layers: Mapping[str, int]
) -> list[list[str]]:
    """Return the ids of each layer from top to bottom: each near the mean row of its predecessors."""
    rows: list[list[str]] = [[] for _ in range(max(layers.values(), default=0) + 1)]
    before: dict[str, list[str]] = {}
    for node in nodes:
        rows[layers[node.id]].append(node.id)
    for edge in edges:
        chain = _passed(edge, layers)
        for layer, point in enumerate(chain[1:-1], start=layers[edge.source] + 1):
            rows[layer].append(point)
        for first, second in itertools.pairwise(chain):
            before.setdefault(second, []).append(first)
    row: dict[str, float] = {}
    for ids in rows:
        ids.sort(key=lambda node_id: _mean([row[source] for source in before.get(node_id, ())]))
        row |= {node_id: number - (len(ids) - 1) / 2 for number, node_id in enumerate(ids)}
    return rows


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _placed(
    nodes: Sequence[GraphNode],
    edges: Sequence[GraphEdge],
    layers: Mapping[str, int],
    rows: Sequence[Sequence[str]],
) -> tuple[dict[str, _Place], float, float]:
    """Return the places, and the width and height of the drawing."""
    by_id = {node.id: node for node in nodes}
    heights = {
        node_id: _box_height(by_id[node_id], edges) if node_id in by_id else 0.0
        for ids in rows
        for node_id in ids
    }
    longest = max((len(edge.lines) for edge in edges), default=1) * _LINE
    row_height = max([longest, *heights.values()]) + 30
    height = max(map(len, rows)) * row_height + 2 * _MARGIN
    places, left = dict[str, _Place](), float(_MARGIN)
    for layer, ids in enumerate(rows):
        width = max((_box_width(by_id[node_id]) for node_id in ids if node_id in by_id), default=0.0)
        for number, node_id in enumerate(ids):
            middle = height / 2 + (number - (len(ids) - 1) / 2) * row_height
            places[node_id] = _Place(left, middle, width, heights[node_id])
        texts = [text for edge in edges if layers[edge.source] == layer for text in edge.lines]
        gap = max(map(len, texts), default=0) * _CHARACTER + _BEND + 28
        left += width + (gap if layer < len(rows) - 1 else 0)
    return places, left + _MARGIN, height


def _box_width(node: GraphNode) -> float:
    return max(len(node.title), len(node.detail) * 0.92, 8) * _CHARACTER + 2 * _PAD


def _box_height(node: GraphNode, edges: Sequence[GraphEdge]) -> float:
    """Return the height of a box: each edge that ends at it has room for its texts."""
    ends = sum(_room(edge) for edge in edges if edge.target == node.id)
    return max(46.0 if node.detail else 32.0, ends)


def _room(edge: GraphEdge) -> float:
    return len(edge.lines) * _LINE + 8.0


def _boxes(nodes: Sequence[GraphNode], places: Mapping[str, _Place], colors: ChartColors) -> Iterator[str]:
    for node in nodes:
        place = places[node.id]
        y, center = place.middle - place.height / 2, place.left + place.width / 2
        yield (
            f'<rect x="{place.left:.1f}" y="{y:.1f}" width="{place.width:.1f}" height="{place.height:.1f}" '
            f'rx="6" fill="{colors.background}" stroke="{colors.muted}"/>'
        )
        baseline = place.middle + (-3 if node.detail else 4)
        yield (
            f'<text x="{center:.1f}" y="{baseline:.1f}" text-anchor="middle" font-weight="600" '
            f'fill="{colors.text}">{escape(node.title)}</text>'
        )
        if node.detail:
            yield (
                f'<text x="{center:.1f}" y="{place.middle + 14:.1f}" text-anchor="middle" font-size="11" '
                f'fill="{colors.muted}">{escape(node.detail)}</text>'
            )


def _edges(
    edges: Sequence[GraphEdge], places: Mapping[str, _Place], layers: Mapping[str, int], colors: ChartColors
) -> Iterator[str]:
    ends = _ends(edges, places, layers)
    for edge in edges:
        chain = [places[node_id] for node_id in _passed(edge, layers)]
        points = [(chain[0].right, chain[0].middle)]
        for passed in chain[1:-1]:
            points += [(passed.left, passed.middle), (passed.right, passed.middle)]
        points.append((chain[-1].left, ends[edge.source, edge.target]))
        yield from _line(points, colors)
        yield from _texts(edge.lines, points[0], points[1], colors)


def _ends(
    edges: Sequence[GraphEdge], places: Mapping[str, _Place], layers: Mapping[str, int]
) -> dict[tuple[str, str], float]:
    """Return where each edge meets the left side of its target, in the order in which they arrive."""
    offsets: dict[tuple[str, str], float] = {}
    for target in {edge.target for edge in edges}:
        arriving = [edge for edge in edges if edge.target == target]
        arriving.sort(key=lambda edge: places[_passed(edge, layers)[-2]].middle)
        y = places[target].middle - sum(map(_room, arriving)) / 2
        for edge in arriving:
            # The line is below its texts.
            offsets[edge.source, target] = y + _room(edge) - (_LINE if len(arriving) > 1 else _room(edge) / 2)
            y += _room(edge)
    return offsets


def _line(points: Sequence[tuple[float, float]], colors: ChartColors) -> Iterator[str]:
    """Draw an arrow: a bend after each box or layer, then straight below the texts."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x1, y1), (x2, y2) in itertools.pairwise(points):
        half, bent = x1 + _BEND / 2, x1 + _BEND
        path += f" C{half:.1f} {y1:.1f} {half:.1f} {y2:.1f} {bent:.1f} {y2:.1f} L{x2:.1f} {y2:.1f}"
    x, y = points[-1]
    yield f'<path d="{path}" fill="none" stroke="{colors.muted}" stroke-width="1.5"/>'
    yield f'<path d="M{x:.1f} {y:.1f} l-8 -4 v8 z" fill="{colors.muted}"/>'


def _texts(
    lines: Sequence[str], begin: tuple[float, float], end: tuple[float, float], colors: ChartColors
) -> Iterator[str]:
    """Write the tensors above the straight part of an edge, the last one lowest."""
    x = (begin[0] + _BEND + end[0] - 8) / 2
    for number, text in enumerate(reversed(lines)):
        yield (
            f'<text x="{x:.1f}" y="{end[1] - 5 - number * _LINE:.1f}" text-anchor="middle" '
            f'fill="{colors.text}">{escape(text)}</text>'
        )
