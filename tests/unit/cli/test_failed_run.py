"""How a run ends on the command line that found nothing: exit code 1, and what to do."""

from pathlib import Path

import pytest
import typer

from tests.support.builders import a_problem
from tests.unit.adapters.kube.test_status import a_summary
from tunewright.cli.run import show
from tunewright.planner.summary import FailureCount


def test_a_failed_run_says_what_to_do_about_its_failures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classes = (FailureCount(failure="DeviceMismatch", count=4),)
    failed = a_summary(
        state="Failed",
        finish_message="4 attempts ended with DeviceMismatch",
        counters=a_summary().counters.model_copy(update={"failed_by_class": classes}),
        best_projected=None,
        best_measured=None,
    )
    with pytest.raises(typer.Exit) as ended:
        show(tmp_path, a_problem(), failed, json_output=True)
    assert ended.value.exit_code == 1
    said = capsys.readouterr().err
    assert said.startswith("error: 4 attempts ended with DeviceMismatch\nDeviceMismatch: Check the node's labels")
    assert "`--trials simulated` rehearses the run" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result.json"]
