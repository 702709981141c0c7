"""Graphs: boxes do not overlap, arrows go to the right, and texts are escaped."""

from __future__ import annotations

import random
import re
from xml.etree import ElementTree as ET

import pytest

from tritonstack.operate.report.page.svg_graphs import GraphEdge, GraphNode, draw_graph
from tritonstack.operate.report.svg_charts import LIGHT

Box = tuple[float, float, float, float]


def _boxes(drawing: str) -> dict[str, Box]:
    """Return left, top, right, and bottom of each box by its title."""
    root = ET.fromstring(drawing)  # noqa: S314 - written by this test
    found: dict[str, Box] = {}
    texts = [one for one in root.iter("text") if one.get("font-weight") == "600"]
    for box, text in zip(root.iter("rect"), texts, strict=True):
        left, top = float(box.attrib["x"]), float(box.attrib["y"])
        right, bottom = left + float(box.attrib["width"]), top + float(box.attrib["height"])
        found[text.text or ""] = (left, top, right, bottom)
    return found


def _random_graph(seed: int) -> tuple[list[GraphNode], list[GraphEdge]]:
    chance = random.Random(seed)  # noqa: S311 - no secret
    nodes = [GraphNode(str(one), f"model-{one}", chance.choice(("", "onnxruntime"))) for one in range(9)]
    edges = [
        GraphEdge(str(source), str(target), ("TEXT BYTES[1]",))
        for source in range(9)
        for target in range(source + 1, 9)
        if chance.random() < 0.35
    ]
    return nodes, edges


@pytest.mark.parametrize("seed", range(20))
def test_boxes_do_not_overlap_and_arrows_go_to_the_right(seed: int) -> None:
    nodes, edges = _random_graph(seed)
    drawing = draw_graph("graph", nodes, edges, LIGHT)
    boxes = _boxes(drawing)
    assert len(boxes) == len(nodes)
    listed = list(boxes.values())
    for number, one in enumerate(listed):
        for other in listed[number + 1 :]:
            assert one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]
    for edge in edges:
        assert boxes[f"model-{edge.source}"][2] < boxes[f"model-{edge.target}"][0]
    size = re.match(r'<svg viewBox="0 0 (\d+) (\d+)"', drawing)
    assert size is not None
    assert all(box[2] <= float(size[1]) and box[3] <= float(size[2]) for box in listed)


def test_texts_are_escaped() -> None:
    nodes = [GraphNode("a", "<b>&"), GraphNode("b", '"x"', "<i>")]
    drawing = draw_graph('<g> "&', nodes, [GraphEdge("a", "b", ("<tensor>",))], LIGHT)
    root = ET.fromstring(drawing)  # noqa: S314 - written by this test
    assert root.get("aria-label") == '<g> "&'
    assert {"<b>&", "<i>", "<tensor>"} <= {one.text for one in root.iter("text")}
