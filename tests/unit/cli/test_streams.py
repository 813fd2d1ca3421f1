"""Where a command cannot print: one line where there is somebody to read it, the exit code, and never a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.test_bad_input import EXAMPLES

QUICK = str(EXAMPLES / "llama-3-70b-mi355x.yaml")
FULL = "error: standard output: cannot be written: No space left on device\n"


def shell(arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command behind a shell, which can close streams."""
    command = f'"$PYTHON" -m tunewright.entry {arguments}'
    variables = {"PYTHON": sys.executable, "FILE": QUICK, "PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, env=variables)


@pytest.mark.parametrize(
    "arguments", ['plan "$FILE"', 'plan "$FILE" --json', 'check "$FILE"', "plan --help", "--version"]
)
def test_a_full_disk_is_told_in_one_line(arguments: str) -> None:
    done = shell(f"{arguments} >/dev/full")
    assert (done.returncode, done.stderr) == (2, FULL)


def test_a_search_whose_result_cannot_be_printed_keeps_it(tmp_path: Path) -> None:
    done = shell('run "$FILE" --trials simulated --out "$OUT" >/dev/full', OUT=str(tmp_path))
    assert (done.returncode, "Traceback" in done.stderr, done.stderr.endswith(FULL)) == (2, False, True)
    assert (tmp_path / "result.json").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ('check "$FILE" >&-', 0),
        ("check no.yaml 2>&-", 2),
        ("check no.yaml 2>/dev/full", 2),
        ("check no.yaml <&- >&- 2>&-", 2),
        ("plan --nonsense 2>/dev/full", 2),
    ],
)
def test_the_exit_code_holds_where_nobody_listens(arguments: str, code: int) -> None:
    done = shell(arguments)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_a_closed_stream_is_no_place_for_the_first_file_that_is_opened(tmp_path: Path) -> None:
    picture = tmp_path / "timeline.svg"
    done = shell('explain "$FILE" --timeline "$PICTURE" >&-', PICTURE=str(picture))
    assert (done.returncode, done.stderr) == (0, "")
    assert picture.read_text().startswith("<svg")
    assert picture.read_text().rstrip().endswith("</svg>")


def test_signs_that_an_encoding_lacks_are_escaped() -> None:
    done = shell('plan "$FILE"', PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert r" \xd7 8 mi355x" in done.stdout


def test_a_reader_that_leaves_early_is_no_error() -> None:
    done = shell('plan "$FILE" | true')
    assert done.stderr == ""
