"""`tunewright accuracy` and `calibrate` as a person types them."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.test_bad_input import tunewright
from tunewright.domain.catalog_loader import shipped_catalog

DATA = Path(__file__).parents[2] / "data"


def few_rows(folder: Path, device: str, count: int) -> Path:
    """Write the header and some rows of one device into a file."""
    lines = (DATA / "published_throughput.csv").read_text().splitlines()
    chosen = [line for line in lines[1:] if f",{device}," in line][:count]
    path = folder / "rows.csv"
    path.write_text("\n".join([lines[0], *chosen]) + "\n")
    return path


def test_json_says_how_far_each_row_is_off(tmp_path: Path) -> None:
    done = tunewright("accuracy", str(few_rows(tmp_path, "MI355X", 5)), "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert document["rows"] == document["evaluated"] + document["skipped"] + len(document["memoryOnly"])
    row = document["detail"][0]
    assert row["low"] < row["estimated"] < row["high"]
    assert row["ratio"] == pytest.approx(row["estimated"] / row["measured"])


def test_the_table_names_worst_rows_and_reasons(tmp_path: Path) -> None:
    done = tunewright("accuracy", str(few_rows(tmp_path, "MI355X", 30)))
    assert done.returncode == 0
    for words in ("device: MI355X", "Worst rows", "80 % interval", "not scored: lora"):
        assert words in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 100


def test_the_picture_is_written(tmp_path: Path) -> None:
    picture = tmp_path / "plot.svg"
    done = tunewright("accuracy", str(few_rows(tmp_path, "MI355X", 5)), "--plot", str(picture))
    assert done.returncode == 0
    assert picture.read_text().startswith("<svg")


def test_the_other_format_is_suggested(tmp_path: Path) -> None:
    done = tunewright("accuracy", str(few_rows(tmp_path, "MI355X", 5)), "--format", "vtrain")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --format: 'vtrain': needs the column '# GPUs'")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    done = tunewright("accuracy", str(tmp_path / "no.csv"))
    assert done.returncode == 2
    assert "no.csv" in done.stderr
    assert "Traceback" not in done.stderr


def test_calibrate_reproduces_the_numbers_of_the_catalog(tmp_path: Path) -> None:
    done = tunewright("calibrate", str(DATA / "published_throughput.csv"), "--accelerator", "mi355x", "--json")
    fitted = json.loads(done.stdout)["accelerators"][0]
    shipped = shipped_catalog().accelerator("mi355x").calibration.to_json()
    assert fitted["calibration"] == shipped
    assert fitted["rows"] == 9


def test_calibrate_refuses_an_unknown_class_to_leave_out() -> None:
    done = tunewright("calibrate", str(DATA / "published_throughput.csv"), "--leave-out", "rows")
    assert done.returncode == 2
    assert "--leave-out" in done.stderr
