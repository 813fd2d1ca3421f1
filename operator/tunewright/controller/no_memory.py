"""Storages in which kopf keeps nothing: its handlers here only hear what the watches show. Set by `handlers`.

kopf compares each object with what it last handled, for handlers of changes. There are none of those: the copies of
the object that it would make for every event of every Job and Pod are spared.
"""

from typing import Any

import kopf


class NoDiffs(kopf.DiffBaseStorage):
    """Keeps no earlier state of an object."""

    def build(self, **_: Any) -> kopf.BodyEssence:  # noqa: ANN401 - kopf's keywords
        """Return nothing that could differ."""
        return kopf.BodyEssence({})

    def fetch(self, **_: Any) -> None:  # noqa: ANN401 - kopf's keywords
        """Return that nothing is known."""

    def store(self, **_: Any) -> None:  # noqa: ANN401 - kopf's keywords
        """Keep nothing."""


class NoProgress(kopf.ProgressStorage):
    """Keeps no progress of handlers: none is tried again."""

    def fetch(self, **_: Any) -> None:  # noqa: ANN401 - kopf's keywords
        """Return that nothing is known."""

    def store(self, **_: Any) -> None:  # noqa: ANN401 - kopf's keywords
        """Keep nothing."""

    def purge(self, **_: Any) -> None:  # noqa: ANN401 - kopf's keywords
        """There is nothing to forget."""

    def touch(self, **_: Any) -> None:  # noqa: ANN401 - kopf's keywords
        """Do not write to the object."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Return the essence as it is: nothing was added to it."""
        return essence
