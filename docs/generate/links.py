"""A hook of MkDocs: links that leave docs/ work in the repository, and are plain paths on the site.

Named in mkdocs.yml. A source file is no page of the site, so the site shows its path instead of a dead link.
"""

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:  # noqa: ANN401 - MkDocs' own type
    """Replace every link that leaves docs/; `page.file.src_uri` is the page's path below docs/."""
    return inside_only(markdown, page.file.src_uri)


def inside_only(markdown: str, source: str) -> str:
    """Return the text with links that leave docs/ as text and path.

    >>> inside_only("[data](../../tests/data/README.md), [rules](../reference/rules.md)", "concepts/accuracy.md")
    'data (`tests/data/README.md`), [rules](../reference/rules.md)'
    """

    def replaced(link: re.Match[str]) -> str:
        text, target = link.groups()
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), target))
        if path.startswith("docs/"):
            return link[0]
        return text if text.strip("`") == path else f"{text} (`{path}`)"

    return _LINK.sub(replaced, markdown)
