"""The reference page of all launch rules, in Markdown. Called by the documentation build, which writes the file."""

import inspect

from tunewright.domain.problem import Backend
from tunewright.legality.chains import ADVICE, RULES
from tunewright.legality.rule import Rule

_HEAD = """# Launch rules

Generated from the rules themselves: do not edit. `tunewright explain` judges one configuration by them.

A configuration that breaks a rule is never launched, searched or exported; the verdict names the rule. Symbols: T
tensor, P pipeline, V virtual pipeline, C context, E expert, ET expert tensor parallel size, W ranks, D data parallel
size W/(T·C·P), M micro batches, S sequence length.
"""
_BACKENDS: tuple[Backend, ...] = ("primus", "megatron", "torchtitan", "builtin")


def rule_catalogue() -> str:
    """Return the page: one table of rules for each subject, with the backends that have them and their source."""
    groups: dict[str, list[Rule]] = {}
    for rule in _distinct():
        groups.setdefault(rule.check.__module__, []).append(rule)
    sections = [_section(rules) for rules in groups.values()]
    advice = "\n".join(f"| `{rule.name}` | {rule.claim} |" for rule in ADVICE)
    last = f"## Advice\n\nThese launch, with a warning.\n\n| rule | what holds |\n|---|---|\n{advice}\n"
    return "\n".join([_HEAD, *sections, last])


def _distinct() -> list[Rule]:
    """Every rule once, in the order in which backends list them."""
    return list({rule.name: rule for backend in _BACKENDS for rule in RULES[backend]}.values())


def _section(rules: list[Rule]) -> str:
    """Title and source are the docstring of the rules' module."""
    documentation = inspect.getdoc(inspect.getmodule(rules[0].check)) or ""
    title, _, rest = documentation.partition("\n")
    lines = "\n".join(f"| `{rule.name}` | {rule.claim} | {_holders(rule)} |" for rule in rules)
    body = f"{rest.strip()}\n\n" if rest.strip() else ""
    return f"## {title.rstrip('.')}\n\n{body}| rule | what holds | backends |\n|---|---|---|\n{lines}\n"


def _holders(rule: Rule) -> str:
    holders = [backend for backend in _BACKENDS if rule.name in {held.name for held in RULES[backend]}]
    return "all" if len(holders) == len(_BACKENDS) else ", ".join(holders)
