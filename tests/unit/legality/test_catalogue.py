"""The page of launch rules is the one that the rules make."""

from pathlib import Path

from tunewright.legality import RULES
from tunewright.legality.catalogue import rule_catalogue

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "rules.md"


def test_the_committed_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == rule_catalogue(), "write it again with `make docs`"


def test_the_page_names_every_rule_once() -> None:
    page = rule_catalogue()
    for name in {rule.name for rules in RULES.values() for rule in rules}:
        assert page.count(f"| `{name}` |") == 1


def test_rules_of_some_backends_name_them() -> None:
    page = rule_catalogue()
    assert (
        "| `zero-bubble-v-fills-pipeline` | zero-bubble-v in Primus: at least 2P − 1 micro batches. | primus |" in page
    )
    assert "| `tensor-divides-heads` | T divides the attention heads. | all |" in page
