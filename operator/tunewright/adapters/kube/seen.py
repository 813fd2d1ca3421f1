"""Jobs and Pods of a run's trials: as last listed, as written since, and as the watch has shown them. Used by `trials`.

A watch may be late, end and skip what was deleted meanwhile, and Jobs and Pods come by two of them: so what is here
says that something happened, and never by itself that something is gone or failed. Who concludes that looks again.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tunewright.adapters.kube import labels
from tunewright.adapters.kube.names import RunReference

Document = dict[str, Any]

JOB_NAME_LABEL = "batch.kubernetes.io/job-name"


class SeenObjects:
    """Objects of one kind, by name. Only what is read of them is kept."""

    def __init__(self) -> None:
        self._objects: dict[str, Document] = {}
        self._meanwhile: list[tuple[Document, bool]] | None = None
        """Shown while somebody looks: newer than what the look brings, or older. None while nobody does."""

    @property
    def all(self) -> Mapping[str, Document]:
        """Every object that is known."""
        return self._objects

    def expect(self) -> None:
        """Somebody begins to look."""
        self._meanwhile = []

    def listed(self, documents: Iterable[Document]) -> None:
        """Somebody has looked: this is all that there was; what was shown meanwhile may come after it."""
        self._objects = {document["metadata"]["name"]: _slim(document) for document in documents}
        meanwhile, self._meanwhile = self._meanwhile or [], None
        for document, is_gone in meanwhile:
            self._take(document, is_gone=is_gone)

    def saw(self, document: Document, *, is_gone: bool = False) -> None:
        """An object as it was written or as the watch shows it; an older one than what is known changes nothing."""
        slim = _slim(document)
        if self._meanwhile is not None:
            self._meanwhile.append((slim, is_gone))
        self._take(slim, is_gone=is_gone)

    def drop(self, names: Iterable[str]) -> None:
        """Objects of which nothing more is to be known."""
        for name in names:
            self._objects.pop(name, None)

    def _take(self, document: Document, *, is_gone: bool) -> None:
        name = document["metadata"]["name"]
        known = self._objects.get(name)
        if is_gone and (known is None or not is_newer(known, document)):
            self._objects.pop(name, None)
        elif not is_gone and (known is None or is_newer(document, known)):
            self._objects[name] = document


def is_newer(document: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether an object was written after another of its name was.

    Versions of one kind are numbers that grow (kubernetes.io, API concepts, Resource versions; KEP-5504).
    """
    one, two = (str(item["metadata"].get("resourceVersion", "")) for item in (document, other))
    return int(one) > int(two) if one.isdecimal() and two.isdecimal() else one != two


def is_of_trial(document: Mapping[str, Any], run: RunReference) -> bool:
    """Tell whether an object is labelled as one of a trial of this run, so that a list of those has it."""
    own = document["metadata"].get("labels") or {}
    return labels.run_labels(run, "trial").items() <= own.items()


def by_job(pods: Iterable[Document]) -> dict[str, list[Document]]:
    """Return Pods by the name of their Job."""
    found: dict[str, list[Document]] = {}
    for pod in pods:
        found.setdefault(pod["metadata"]["labels"].get(JOB_NAME_LABEL, ""), []).append(pod)
    return found


def without_bookkeeping(document: Document) -> Document:
    """Return an object without what its writers note of their fields: half of it, and nobody here reads it."""
    metadata = {key: value for key, value in document["metadata"].items() if key != "managedFields"}
    return {**document, "metadata": metadata}


def _slim(document: Document) -> Document:
    """Return what is read of a Job or Pod; most of either is its template with the trial's request."""
    spec = document.get("spec") or {}
    kept = {key: value for key, value in spec.items() if key not in ("template", "containers", "volumes", "env")}
    if "template" in spec:
        containers = [{"resources": one.get("resources") or {}} for one in spec["template"]["spec"]["containers"]]
        kept["template"] = {"spec": {"containers": containers}}
    return without_bookkeeping({"metadata": document["metadata"], "spec": kept, "status": document.get("status") or {}})
