"""Jobs and Pods between two looks: what is late, comes twice or is gone."""

from tests.support.kube_documents import Document, a_job
from tunewright.adapters.kube.seen import SeenObjects, is_newer


def a_version(number: int, name: str = "trial") -> Document:
    return {"metadata": {"name": name, "resourceVersion": str(number)}, "spec": {"suspend": False}}


def version(objects: SeenObjects, name: str = "trial") -> str | None:
    known = objects.all.get(name)
    return known["metadata"]["resourceVersion"] if known else None


def test_versions_are_compared_as_numbers() -> None:
    assert is_newer(a_version(10), a_version(9))
    assert not is_newer(a_version(9), a_version(10))
    assert not is_newer(a_version(9), a_version(9))


def test_what_was_written_is_not_undone_by_a_watch_that_is_late() -> None:
    objects = SeenObjects()
    objects.listed([a_version(1)])
    objects.saw(a_version(7))
    objects.saw(a_version(5))
    assert version(objects) == "7"
    objects.saw(a_version(6), is_gone=True)
    assert version(objects) == "7"
    objects.saw(a_version(8), is_gone=True)
    assert version(objects) is None


def test_a_list_replaces_everything_but_what_was_shown_while_it_was_read() -> None:
    objects = SeenObjects()
    objects.listed([a_version(1), a_version(2, "forgotten")])
    objects.expect()
    objects.saw(a_version(9, "new"))
    objects.saw(a_version(3))
    objects.listed([a_version(5)])
    assert version(objects) == "5"
    assert version(objects, "new") == "9"
    assert version(objects, "forgotten") is None


def test_a_job_is_kept_without_its_template() -> None:
    objects = SeenObjects()
    job = a_job()
    objects.listed([job])
    (kept,) = objects.all.values()
    assert kept["metadata"]["labels"] == job["metadata"]["labels"]
    (container,) = kept["spec"]["template"]["spec"]["containers"]
    assert container == {"resources": job["spec"]["template"]["spec"]["containers"][0]["resources"]}
