"""The page is one valid, self-contained file in which every text is only text."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

from tests.operate.report.sample import sample_report
from tritonstack.facts.advisories.published import Advisory
from tritonstack.operate.report.page import document
from tritonstack.operate.report.page.document import SECTIONS, Watch, critical_fix, render, render_section
from tritonstack.operate.report.report_data import ReportData, ReportedEnvironment

VOID = frozenset({"meta"})
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&`"


class Page(HTMLParser):
    """Collects elements; fails on one that is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def sections(data: ReportData) -> dict[str, str]:
    """Return the content of each section by id."""
    return {name: render_section(name, data) for name in SECTIONS}


def _shape(page: Page) -> list[str]:
    return [tag for tag, _ in page.tags]


def test_hostile_texts_change_no_element() -> None:
    plain, hostile = Page(render(sample_report())), Page(render(sample_report(lambda text: text + HOSTILE)))
    assert set(_shape(hostile)) == set(_shape(plain))
    assert "script" not in _shape(hostile)
    assert "img" not in _shape(hostile)
    assert any(HOSTILE[:25] in text for text in hostile.texts)
    assert not [name for _, attributes in hostile.tags for name in attributes if name.startswith("on")]


def test_every_part_of_the_data_is_shown() -> None:
    """Each text of the sample has its own mark, which must appear on the page."""
    marks: dict[str, str] = {}

    def marked(text: str) -> str:
        return marks.setdefault(text, f"{text} mark{len(marks)}x")

    text = " ".join(Page(render(sample_report(marked))).texts)
    missing = [before for before, after in marks.items() if after.rpartition(" ")[2] not in text]
    assert missing == []


def test_the_file_loads_nothing() -> None:
    page = Page(render(sample_report()))
    assert not {"script", "link", "img", "iframe", "object", "base", "form"} & set(_shape(page))
    for tag, attributes in page.tags:
        assert "style" not in attributes, tag
        assert not {"src", "srcset", "action"} & set(attributes), tag
        assert (attributes.get("href") or "#").startswith("#"), tag


def test_the_policy_allows_exactly_the_styles() -> None:
    for text in (render(sample_report()), render(sample_report(), Watch(10))):
        page = Page(text)
        policy = next(
            attributes["content"] or ""
            for tag, attributes in page.tags
            if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
        )
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        for content in re.findall("<style>(.*?)</style>", text, re.DOTALL):
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            assert f"style-src 'sha256-{digest}'" in policy


def test_sections_without_data_say_what_produces_it() -> None:
    sample = sample_report()
    empty = ReportData(sample.project, sample.at, sample.version, None, (), (), ())
    environment = ReportedEnvironment("dev", "111111111111", "eu-west-1", "26.05")
    unread = dataclasses.replace(empty, environments=(environment,), models=sample.models[1:])
    for data in (empty, unread):
        for name, html in sections(data).items():
            assert " ".join("".join(Page(f"<section>{html}</section>").texts).split()), name
    assert "tritonstack report" in sections(unread)["changes"]
    assert "tritonstack build" in sections(unread)["artifacts"]
    assert "--record" in sections(sample_with_manifest())["artifacts"]


def sample_with_manifest() -> ReportData:
    sample = sample_report()
    return dataclasses.replace(sample, models=(dataclasses.replace(sample.models[0], load_tests=()),))


def test_overridden_gates_need_attention() -> None:
    sample = sample_report()
    (current,) = sample.environments[0].models["ranker"]
    overridden = dataclasses.replace(current, override="verified: hotfix")
    for locked, is_overridden in ((current, False), (overridden, True)):
        environment = dataclasses.replace(sample.environments[0], models={"ranker": (locked,)})
        data = dataclasses.replace(sample, environments=(environment,), models=sample.models[:1])
        assert ("verified: hotfix" in render_section("attention", data)) == is_overridden
        assert ("gate overridden" in render_section("models", data)) == is_overridden


def test_changed_files_without_effect_need_no_deploy() -> None:
    """A deploy that the CDK found to change nothing is not proposed; one that records a commit is."""
    report = sample_report()
    dev = report.environments[0]

    def proposed(commit: str, *, compared: bool) -> bool:
        assert dev.status is not None
        (endpoint,) = dev.status.endpoints
        assert endpoint.deployed is not None
        changed = dataclasses.replace(
            endpoint,
            deployed=endpoint.deployed.model_copy(update={"commit": commit}),
            models=tuple(dataclasses.replace(model, live=model.locked) for model in endpoint.models),
            to_deploy=("files differ",),
        )
        status = dataclasses.replace(dev.status, endpoints=(changed,))
        read = dataclasses.replace(dev, status=status, changes=dev.changes if compared else None)
        data = dataclasses.replace(report, environments=(read,))
        return "to deploy: files differ" in render_section("attention", data)

    assert proposed("1" * 40, compared=False)
    assert not proposed("1" * 40, compared=True)
    assert proposed("1" * 40 + "+uncommitted", compared=True)


def test_a_critical_vulnerability_names_the_release_that_fixes_it() -> None:
    advisories = [Advisory("CVE-1", "24.09", 9.8), Advisory("CVE-2", "25.04", 9.8)]
    assert critical_fix(advisories) == "fixed in 25.04"
    later = critical_fix([*advisories, Advisory("CVE-3", "99.01", 9.8)])
    assert later.startswith("fixed in 99.01, ")


def test_a_rolled_back_artifact_is_not_reported_as_current() -> None:
    sample = sample_report()
    (current,) = sample.environments[0].models["ranker"]
    restored = dataclasses.replace(current, instead_of="cd" * 32)
    cells = []
    for locked in (current, restored):
        environment = dataclasses.replace(sample.environments[0], models={"ranker": (locked,)})
        data = dataclasses.replace(sample, environments=(environment,), models=sample.models[:1])
        cells.append(" ".join(Page(f"<section>{render_section('models', data)}</section>").texts))
    assert "current" in cells[0]
    assert "rolled back" not in cells[0]
    assert "current" not in cells[1]
    assert "rolled back" in cells[1]
    assert "cdcdcdcdcdcd" in cells[1]


def test_an_environment_that_was_not_read_is_not_reported_as_healthy() -> None:
    sample = sample_report()
    environment = ReportedEnvironment("dev", "111111111111", "eu-west-1", unread="token expired")
    model = dataclasses.replace(sample.models[0], load_tests=(), unread={"dev": "token expired"})
    parts = sections(dataclasses.replace(sample, environments=(environment,), models=(model,)))
    assert all("token expired" in parts[name] for name in ("attention", "environments", "artifacts"))
    assert "Nothing" not in parts["attention"]
    assert "No load test" not in parts["artifacts"]


def test_charts_of_equal_and_zero_values_have_a_finite_axis() -> None:
    """A load test without an answer has the rate 0; a model without batches is measured at 1 only."""
    sample = sample_report()
    ranker = sample.models[0]
    event = ranker.load_tests[0]
    assert event.load_test is not None
    assert ranker.manifest is not None
    levels = tuple(level.model_copy(update={"answered_per_s": 0.0}) for level in event.load_test.levels)
    test = event.model_copy(update={"load_test": event.load_test.model_copy(update={"levels": levels})})
    alike = tuple(latency.model_copy(update={"batch": 1}) for latency in ranker.manifest.latency)
    instant = tuple(
        candidate.model_copy(update={"latency_ms": dict.fromkeys(candidate.latency_ms, 0.0)})
        for candidate in ranker.manifest.candidates
    )
    built = ranker.manifest.model_copy(update={"latency": alike, "candidates": instant})
    model = dataclasses.replace(ranker, manifest=built, load_tests=(test,))
    text = render(dataclasses.replace(sample, models=(model,)))
    assert len(text) < 200_000
    assert "nan" not in re.findall(r'[xy][12]?="([^"]*)"', text)


def test_every_class_of_the_templates_has_a_style() -> None:
    folder = Path(document.__file__).parent
    templates = "".join(file.read_text() for file in (folder / "templates").iterdir())
    names = {name for value in re.findall(r'class="([^"{]*)"', templates) for name in value.split()}
    assert names <= set(re.findall(r"\.([\w-]+)", (folder / "report.css").read_text()))
