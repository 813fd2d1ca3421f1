"""Judges configurations against the rules of a problem's backend. Called by search, planner and command line.

Every violation is reported, not the first. "Illegal" is a returned value here; `IllegalConfig` is for the boundary.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tunewright.domain.config_batch import BoolArray, ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.legality.chains import ADVICE, RUNNER_RULES, rules_for
from tunewright.legality.rule import Finding, RuleContext
from tunewright.trial_protocol.report import Runner


@dataclass(frozen=True)
class Verdicts:
    """The findings of every rule on a batch, in the order of the rules."""

    findings: Mapping[str, Finding]
    rows: int

    @cached_property
    def legal(self) -> BoolArray:
        """Which rows break no rule."""
        legal = np.ones(self.rows, dtype=bool)
        for finding in self.findings.values():
            legal &= ~finding.violated
        return legal

    @cached_property
    def by_rule(self) -> dict[str, int]:
        """How many rows break each rule; a row may count for several. Rules that nobody broke are left out."""
        counts = {name: int(finding.violated.sum()) for name, finding in self.findings.items()}
        return {name: count for name, count in counts.items() if count}

    def violations(self, row: int) -> dict[str, str]:
        """Return every rule that a row breaks, with its message; empty when it is legal."""
        broken = {name: finding for name, finding in self.findings.items() if finding.violated[row]}
        return {name: finding.message(row) for name, finding in broken.items()}


def judge(problem: TuningProblem, batch: ConfigBatch) -> Verdicts:
    """Apply every rule of the problem's backend to every row."""
    context = RuleContext(problem, batch)
    return Verdicts({rule.name: rule.check(context) for rule in rules_for(problem.backend)}, len(batch))


def judge_runner(problem: TuningProblem, batch: ConfigBatch, runner: Runner) -> Verdicts:
    """Say which rows a runner of trials cannot run, and why, whichever backend's rules allow them."""
    context = RuleContext(problem.model_copy(update={"backend": runner}), batch)
    return Verdicts({rule.name: rule.check(context) for rule in RUNNER_RULES[runner]}, len(batch))


def explain(problem: TuningProblem, batch_of_one: ConfigBatch) -> list[tuple[str, bool, str]]:
    """Return every rule with its verdict on one configuration: name, kept, and what holds or what to change."""
    context = RuleContext(problem, batch_of_one)
    lines = []
    for rule in rules_for(problem.backend):
        finding = rule.check(context)
        kept = not finding.violated[0]
        lines.append((rule.name, kept, rule.claim if kept else finding.message(0)))
    return lines


def warnings(problem: TuningProblem, batch: ConfigBatch, row: int = 0) -> dict[str, str]:
    """Return what launches but is rarely wanted in one row, by rule."""
    context = RuleContext(problem, batch)
    findings = {rule.name: rule.check(context) for rule in ADVICE}
    return {name: finding.message(row) for name, finding in findings.items() if finding.violated[row]}
