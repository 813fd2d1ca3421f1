"""The page of a run: complete, labelled, equal to the summary, safe, small and the same every time."""

import gzip
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.support.planning import Run, World
from tests.support.records import a_header, a_tiny_problem
from tests.support.reported import reported_run
from tunewright.planner.chain import chained
from tunewright.planner.records import Record, Round
from tunewright.report.page import MOST_COMPRESSED_BYTES, render_report, render_story
from tunewright.report.story import Story, story_of

SECTIONS = [
    "What was asked",
    "The answer",
    "How the search went",
    "What each setting does",
    "Configurations that were tried",
    "Projected against measured",
    "Where memory and time go",
    "What the LLM believed, and what came of it",
    "Filtered before any GPU was used",
    "Trials that failed",
    "What it cost",
    "How to use and reproduce it",
]
KINDS = {"measured", "projected", "estimated", "simulated"}
VOID = {"meta", "link", "br", "wbr", "path", "use", "rect", "line", "circle", "polyline"}
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"


class Outline(HTMLParser):
    """Headings, figures with their words, identifiers, and everything that could load or run something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[tuple[str, str]] = []
        self.figures: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.loads: list[str] = []
        self.handlers: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("h1", "h2", "h3"):
            self.headings.append((tag, ""))
        if tag == "figcaption":
            self.figures.append("")
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href", "srcset", "action") and not (value or "").startswith("#"):
                self.loads.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings[-1] = (self.headings[-1][0], self.headings[-1][1] + data)
        if "figcaption" in self.open:
            self.figures[-1] += data


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return reported_run()


@pytest.fixture(scope="module")
def story(records: list[Record]) -> Story:
    return story_of(records)


@pytest.fixture(scope="module")
def page(story: Story) -> str:
    return render_story(story)


def test_the_story_is_told_from_the_question_to_how_to_reproduce_it(page: str) -> None:
    outline = Outline(page)
    assert outline.open == []
    assert [text for level, text in outline.headings if level == "h2"] == SECTIONS
    assert [text for level, text in outline.headings if level == "h1"] == ["mixtral-8x22b on 8 × 8 mi355x"]


def test_every_figure_says_of_which_kind_its_numbers_are(page: str) -> None:
    figures = Outline(page).figures
    assert len(figures) >= 8
    assert all(KINDS & set(caption.split()) for caption in figures)


def test_the_numbers_are_those_of_the_summary(page: str, story: Story) -> None:
    summary = story.summary
    best = summary.best_measured
    assert best is not None
    assert f'data-figure="measured">{best.tokens_per_second_per_gpu:,.0f}<' in page
    assert f"{best.improvement_percent.over_baseline:+.1f} %" in page
    assert f"{best.improvement_percent.over_reference:+.1f} %" in page
    step_seconds = 512 * 8192 / (64 * best.tokens_per_second_per_gpu)
    assert f'<p class="value">{step_seconds:.1f} s</p><p>for a step of the whole job</p>' in page
    assert "begun 2026-11-30 05:00 UTC" in page
    assert summary.bias is not None
    assert f"{summary.bias.percent:+.1f} %" in page
    assert f"{summary.spent.gpu_hours:,.2f} (forecast {summary.forecast.gpu_hours:,.2f})" in page
    assert f"{summary.space.filtered:,} of {summary.space.legal:,} legal configurations" in page
    rows = [row for row in summary.candidates if row.measured]
    assert len(rows) >= 2
    assert all(f"<td>{row.measured:,.0f}</td><td>{row.projected:,.0f}</td>" in page for row in rows)
    assert all(item.status in page and item.reason in page for item in summary.hypotheses)
    assert story.head in page


def test_short_names_are_explained_and_what_was_measured_has_a_name_of_its_own(page: str, story: Story) -> None:
    assert "tp: tensor parallel size, pp: pipeline parallel size" in page
    named = re.search(r'aria-label="projected and measured.*?</svg>', page, re.DOTALL)
    assert named is not None
    measured = [item.measurement.trial for item in story.evaluation.candidates if item.measurement]
    assert len(measured) == len(set(measured)) >= 3
    assert all(f">{trial}<" in named[0] for trial in measured)
    assert ">best<" in named[0] and ">baseline<" in named[0]


def test_what_filtering_rejected_says_by_how_many_bytes(page: str, story: Story) -> None:
    row = next(row for row in story.summary.candidates if row.filtered)
    place = story.space.row_of(row.config)
    assert place is not None
    verdict = story.space.memory_verdict(place)
    over = float(verdict.estimate.allocated_bytes[0]) - verdict.limit_bytes
    assert over > 0
    assert f"<td>{over / 2**30:.1f} GiB</td>" in page


def test_a_page_loads_nothing_and_runs_nothing(page: str) -> None:
    outline = Outline(page)
    assert not {"script", "iframe", "object", "embed", "form", "img", "video"} & outline.tags
    assert outline.handlers == []
    assert outline.loads == ["data:,"]
    assert "url(http" not in page
    assert "@import" not in page
    assert len(outline.ids) == len(set(outline.ids))


def test_words_of_people_trials_and_the_llm_are_shown_and_never_obeyed() -> None:
    page = render_report(reported_run(SCRIPT, image=SCRIPT, operator_version=SCRIPT))
    outline = Outline(page)
    assert not {"script", "img"} & outline.tags
    assert outline.handlers == []
    shown = page.count("&lt;script&gt;alert(1)&lt;/script&gt;")
    assert shown >= 8  # run, source, image, version, mechanism, axis, node, message
    assert page.count("alert(1)") == shown


def test_a_page_fits_its_config_map_with_room(page: str) -> None:
    assert len(gzip.compress(page.encode())) < MOST_COMPRESSED_BYTES / 4


def test_a_page_is_the_same_in_every_process(records: list[Record], page: str, tmp_path: Path) -> None:
    ledger, out = tmp_path / "run.jsonl", tmp_path / "report.html"
    ledger.write_text(chained(records)[0])
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo", "LC_ALL": "C"}
        command = [sys.executable, "-m", "tunewright.entry", "report", str(ledger), "-o", str(out)]
        subprocess.run(command, check=True, capture_output=True, env=environment)
        assert out.read_text(encoding="utf-8") == page


def test_both_colour_schemes_colour_the_drawings(page: str) -> None:
    assert "prefers-color-scheme: dark" in page
    for name in ("ink", "muted", "grid", "measured", "projected", "bad", "card"):
        assert f"var(--{name})" in page
        assert len(re.findall(rf"--{name}: #", page)) == 2
    assert not re.search(r"#01020[0-9a-f]", page)


def test_a_simulated_run_says_so_at_its_top_and_at_each_figure(records: list[Record]) -> None:
    header = a_header(**{**records[0].model_dump(), "type": "header", "simulated": True})
    page = render_report([header, *records[1:]])
    assert page.index("<strong>Simulated.</strong>") < page.index("What was asked")
    figures = [text for text in Outline(page).figures if {"projected", "measured"} & set(text.split())]
    assert figures
    assert all("simulated" in text.split() for text in figures)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_a_run_that_is_still_under_way_has_a_page(records: list[Record], share: float) -> None:
    some = records[: 1 + int(share * len(records))]
    outline = Outline(render_report(some))
    assert outline.open == []
    assert ("h2", "What was asked") in outline.headings
    if share == 0.0:
        assert ("h2", "How the search went") not in outline.headings


def test_a_run_without_pipeline_says_that_there_is_none() -> None:
    problem = a_tiny_problem()
    run = Run.of(World(problem, a_header().settings)).to_end()
    page = render_report(run.records)
    assert "no pipeline: each rank holds all layers" in page
    assert re.search(r"The baseline takes 0\.\d % of a device&#39;s memory", page)
    assert Outline(page).open == []


def test_every_recorded_projection_is_in_the_progress(story: Story, page: str) -> None:
    best = max(
        figure.projected for record in story.records if isinstance(record, Round) for figure in record.projections
    )
    assert json.dumps(f"{best:,.0f}").strip('"') in page
