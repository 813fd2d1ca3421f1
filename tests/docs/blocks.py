"""The fenced blocks of README and docs, with what stands above them. Read by the tests here.

A block of commands is run, unless a comment on the line above says who runs it or why nobody does:

    <!-- run by tests/unit/cli/test_quickstart.py -->
    <!-- not run: needs a cluster -->

In recipes it names the file that the block is, is appended to, or edits as a diff:

    <!-- edit: operator/tunewright/legality/chains.py -->

A block of YAML is checked as a TuningRun or a part of one, unless the comment says what else it is.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LANGUAGES = frozenset({"indented", "sh", "yaml", "json", "text", "python", "diff", "dockerfile"})
_INDENTED = re.compile(r"^ {4}(?P<text>(tunewright|make|kubectl|helm|docker) .*)$")
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)$")
_MARK = re.compile(
    r"^ *<!-- (?P<kind>run by|not run:|chart values|other YAML:|file:|append to:|edit:) ?(?P<words>.*?) ?-->$"
)


@dataclass(frozen=True)
class Block:
    """One fenced block: where it stands, its language and text, and the comment above it."""

    page: Path
    line: int
    language: str
    text: str
    mark: str = ""
    words: str = ""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command line, comments left out, continued lines joined."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def blocks(*languages: str) -> list[Block]:
    """Return the blocks of all pages in these languages, or in any."""
    found = [block for page in PAGES for block in _blocks(page)]
    return [block for block in found if not languages or block.language in languages]


def _blocks(page: Path) -> Iterator[Block]:
    """Walk one page. A command that is indented instead of fenced is a block of its own, `indented`, and is not run."""
    above, lines = "", iter(enumerate(page.read_text(encoding="utf-8").splitlines(), start=1))
    for number, line in lines:
        opened = _FENCE.match(line)
        if opened is None:
            if indented := _INDENTED.match(line):
                yield Block(page, number, "indented", indented["text"].rstrip("\\ ") + "\n")
            above = line if line.strip() else above
            continue
        body = []
        for _, inner in lines:
            if inner.strip() == "```":
                break
            body.append(inner.removeprefix(opened["indent"]))
        mark = _MARK.match(above)
        yield Block(
            page,
            number,
            opened["language"],
            "\n".join(body) + "\n",
            mark["kind"].rstrip(":") if mark else "",
            mark["words"] if mark else "",
        )
        above = ""
