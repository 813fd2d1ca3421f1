"""`tunewright report LEDGER`: the story of a run as a page, as text, and its pipelines as a trace."""

import json
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from tunewright.adapters.ledger.file import read_ledger
from tunewright.cli.console import messages, output
from tunewright.cli.outputs import write_text
from tunewright.cli.result_view import print_result
from tunewright.cli.tables import table, titled
from tunewright.errors import InvalidInput
from tunewright.report.belief import beliefs
from tunewright.report.facts import Fact, asked, commands, costs, filtered, provenance, question
from tunewright.report.page import render_story
from tunewright.report.story import Story, story_of
from tunewright.report.trace import trace_of_story


def run_report(path: Path, out: Path | None, trace: Path | None, *, text: bool) -> None:
    """Write what is asked for; raise `InvalidInput` when nothing is."""
    if out is None and trace is None and not text:
        raise InvalidInput.of("--out", None, "is missing: give -o FILE.html, --text or --trace FILE.json")
    story = story_of(read_ledger(path))
    if out is not None:
        write_text(out, render_story(story), "--out")
        messages.print(f"wrote {out}", soft_wrap=True, markup=False)
    if trace is not None:
        write_text(trace, json.dumps(trace_of_story(story)) + "\n", "--trace")
        messages.print(f"wrote {trace}: open it at ui.perfetto.dev", soft_wrap=True, markup=False)
    if text:
        _print(story)


def _print(story: Story) -> None:
    output.print(Text(question(story)), soft_wrap=True)
    output.print(_facts("What was asked", asked(story)))
    print_result(story.problem, story.summary)
    output.print(titled("How far to believe it", _lines(beliefs(story))))
    if story.summary.axes:
        output.print(_facts("What each setting does to the baseline, %", _axes(story)))
    if rows := filtered(story):
        output.print(_facts("Filtered for their memory", [_too_large(row.configuration, row.over) for row in rows]))
    output.print(_facts("What it cost", costs(story)))
    output.print(_facts("How to reproduce it", provenance(story)))
    output.print(_lines(commands(story)))


def _facts(title: str, facts: list[Fact]) -> RenderableType:
    """Show facts; their words may be anybody's, so they are no markup."""
    made = table("", "")
    made.show_header = False
    for fact in facts:
        made.add_row(Text(fact.name), Text(fact.text))
    return titled(title, made)


def _lines(lines: list[str]) -> Text:
    return Text("\n".join(lines))


def _axes(story: Story) -> list[Fact]:
    return [Fact(row.axis, row.effects) for row in story.summary.axes]


def _too_large(configuration: str, over: str) -> Fact:
    return Fact(configuration, f"{over} too much")
