"""Parts of the report: sentences, facts, the trace, and drawings that hold what they show."""

import itertools
import re
import sys
from dataclasses import replace

import pytest

from tests.support.reported import reported_run
from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import TuningError
from tunewright.report.axis_chart import axis_chart
from tunewright.report.belief import beliefs, flag_words
from tunewright.report.facts import changes, commands
from tunewright.report.memory_chart import memory_chart
from tunewright.report.page import render_story
from tunewright.report.pipelines import MOST_EVENTS, memory_pictures, timeline_pictures
from tunewright.report.plotting import chart
from tunewright.report.progress_chart import progress_chart, steps_of
from tunewright.report.step_chart import breakdowns
from tunewright.report.story import Story, story_of
from tunewright.report.trace import trace_of_story


@pytest.fixture(scope="module")
def story() -> Story:
    return story_of(reported_run())


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("LossDiffers", "It does not train like the baseline"),
        ("FewerNodes", "Measured on fewer nodes"),
        ("modelled:expertCommunication", "Expert communication was not timed but modelled."),
        ("untimed-group:expert", "The expert group does not fit in one node"),
        ("somethingNew", "somethingNew"),
    ],
)
def test_a_flag_becomes_a_sentence(flag: str, words: str) -> None:
    assert flag_words(flag).startswith(words)


def test_a_single_measurement_does_not_claim_to_know_its_spread(story: Story) -> None:
    best, bias = story.summary.best_measured, story.summary.bias
    assert best is not None and bias is not None
    for repeats, words in ((1, "How much two runs differ was not measured"), (3, "Measured in 3 whole-job runs")):
        summary = story.summary.model_copy(update={"best_measured": best.model_copy(update={"repeats": repeats})})
        told = " ".join(beliefs(replace(story, summary=summary)))
        assert words in told
        assert "It trains like the baseline" in told
        assert f"{abs(bias.percent):.1f} % too {'high' if bias.percent >= 0 else 'low'} on average" in told


def test_changes_name_only_what_differs() -> None:
    best = TrainingConfig(tensor_parallel_size=4, overlap_grad_reduce=False)
    named = [(change.field, change.baseline, change.best) for change in changes(TrainingConfig(), best)]
    assert named == [("tensorParallelSize", "1", "4"), ("overlapGradReduce", "true", "false")]


def test_every_trial_that_ended_is_a_step_of_the_progress(story: Story) -> None:
    steps = steps_of(story)
    assert sorted(step.trial for step in steps) == sorted(story.state.trials)
    failed = [step.trial for step in steps if step.kind == "failed"]
    assert failed == [trial.name for trial in story.state.trials.values() if trial.failure]
    assert f"{len(steps)} trials" in progress_chart(story)


def test_the_axis_chart_has_every_axis_and_value(story: Story) -> None:
    drawn = axis_chart(story.summary.axes)
    words = re.findall(r">([^<>]+)</text>", drawn)
    for row in story.summary.axes:
        assert row.axis in words
        assert all(value.value in words for value in row.values)


def test_the_parts_of_a_step_are_those_of_the_projection(story: Story) -> None:
    best, baseline = breakdowns(story)
    assert (best.name, baseline.name) == ("best", "baseline")
    assert story.best is not None and story.best.projection is not None
    assert best.seconds == pytest.approx(story.best.projection.step_seconds)
    assert (best.kind, baseline.kind) == ("projected", "projected")


def test_the_histogram_counts_what_is_filtered(story: Story) -> None:
    counts = story.space.counts
    assert f"{counts.filtered} of {counts.legal} legal configurations need more than" in memory_chart(story)


def test_a_timeline_stays_small_and_says_how_much_of_the_step_it_shows(story: Story) -> None:
    for item in timeline_pictures(story):
        assert item["svg"].count("<title>") <= MOST_EVENTS
        assert "micro batches" in item["caption"]


def test_the_trace_has_both_pipelines_with_every_rank_in_order(story: Story) -> None:
    trace = trace_of_story(story)
    events = trace["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert [name.partition(":")[0] for name in names.values()] == ["best", "baseline"]
    for process, (_, config) in zip(names, story.compared, strict=True):
        timed = [event for event in events if event["pid"] == process and event["ph"] == "X"]
        assert {event["tid"] for event in timed} == set(range(config.pipeline_parallel_size))
        for rank in range(config.pipeline_parallel_size):
            mine = sorted((event["ts"], event["dur"]) for event in timed if event["tid"] == rank)
            assert all(start + length <= after + 0.01 for (start, length), (after, _) in itertools.pairwise(mine))


def test_commands_name_the_trial_of_the_best(story: Story) -> None:
    assert story.best is not None
    assert f"tunewright why run.jsonl {story.best.trial}" in commands(story)


def test_a_chart_has_words_for_those_who_do_not_see_it_and_ids_of_its_own() -> None:
    drawn = chart("one", 'a "quoted" <word>', 2.0, lambda axes: axes.plot([0, 1], [0, 1]))
    assert 'role="img" aria-label="a &quot;quoted&quot; &lt;word&gt;"' in drawn
    assert all(name.startswith("one-") for name in re.findall(r' id="([^"]*)"', drawn))
    assert "<style" not in drawn


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_a_missing_package_is_told_with_what_to_install(
    story: Story, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(TuningError, match=rf"needs {package}: pip install 'tunewright\[report\]'"):
        render_story(story)


def test_the_number_behind_a_full_bar_is_inside_its_picture(story: Story) -> None:
    for item in memory_pictures(story):
        width = float(re.findall(r'viewBox="0 0 ([\d.]+) ', item["svg"])[0])
        ends = [float(x) for x in re.findall(r'<text x="([\d.]+)"[^>]*>\d+ GiB<', item["svg"])]
        assert ends
        assert width - 960 >= 44
        assert max(ends) + 44 <= width
