"""Launch rules: which configurations a training stack accepts. One function per rule, one list per backend."""

from tunewright.legality.chains import RULES, rules_for
from tunewright.legality.rule import Finding, Rule, RuleContext
from tunewright.legality.verdicts import Verdicts, explain, judge, judge_runner, warnings

__all__ = [
    "RULES",
    "Finding",
    "Rule",
    "RuleContext",
    "Verdicts",
    "explain",
    "judge",
    "judge_runner",
    "rules_for",
    "warnings",
]
