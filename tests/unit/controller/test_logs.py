"""Which fields a line of the JSON log has."""

import asyncio
import logging
from typing import Any

import pytest

from tunewright.controller import logs


def fields(record: logging.LogRecord) -> dict[str, str]:
    logs.add_fields(record)
    return {name: record.__dict__[name] for name in ("logger", "run", "trial") if name in record.__dict__}


def a_record(name: str = "tunewright.engine", **extra: Any) -> logging.LogRecord:
    return logging.makeLogRecord({"name": name, "msg": "words", **extra})


def test_what_is_logged_during_a_pass_names_its_run() -> None:
    with logs.about("team/tiny"):
        assert fields(a_record()) == {"logger": "tunewright.engine", "run": "team/tiny"}
        assert fields(a_record(trial="t0007")) == {"logger": "tunewright.engine", "run": "team/tiny", "trial": "t0007"}
    assert fields(a_record()) == {"logger": "tunewright.engine"}


async def test_tasks_and_threads_that_a_pass_begins_name_its_run_and_other_passes_do_not() -> None:
    async def one_pass(run: str) -> tuple[dict[str, str], dict[str, str]]:
        with logs.about(run):
            await asyncio.sleep(0)  # passes take turns
            task = asyncio.create_task(asyncio.to_thread(fields, a_record()))
            return fields(a_record()), await task

    for run, told in zip(("a/x", "b/y"), await asyncio.gather(one_pass("a/x"), one_pass("b/y")), strict=True):
        assert [line["run"] for line in told] == [run, run]


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ({"kind": "TuningRun", "namespace": "team", "name": "tiny"}, {"run": "team/tiny"}),
        (
            {"kind": "Job", "namespace": "team", "name": "my-t0001-run-t0012-a1-3fa9c2"},
            {"run": "team/my-t0001-run", "trial": "t0012"},
        ),
        (
            {"kind": "Pod", "namespace": "team", "name": "tiny-t0012-a2-3fa9c2-x7k2p"},
            {"run": "team/tiny", "trial": "t0012"},
        ),
        ({"kind": "Pod", "namespace": "team", "name": "somebody-else"}, {}),
    ],
    ids=["run", "job", "pod", "other"],
)
def test_lines_of_kopf_name_the_run_and_trial_of_their_object(
    reference: dict[str, str], expected: dict[str, str]
) -> None:
    assert fields(a_record("kopf.objects", k8s_ref=reference)) == {"logger": "kopf.objects", **expected}
