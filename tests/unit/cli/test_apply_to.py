"""`apply-to`: the best configuration in a person's own experiment, and not a byte besides."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.support.builders import mixtral_problem
from tests.support.reported import reported_run
from tests.unit.cli.test_bad_input import tunewright
from tunewright.backends import primus
from tunewright.cli.apply_to import merged_experiment
from tunewright.cli.yaml_edit import mapping_at, with_values
from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import InvalidInput
from tunewright.planner.chain import chained

OWN = """\
# Our experiment; ask Ann before changing it.
work_group: ${PRIMUS_TEAM:amd}
exp_name: "nightly"   # quoted
modules:
    pre_trainer:          # four spaces, as we like it
        framework: megatron
        overrides:
            # --- data
            train_data_path:
              - 1.0
              - /data/a   # the large one
            mock_data: False
            load: ~
            seq_length: 8192
            # --- parallelism
            tensor_model_parallel_size: 1   # one node
            pipeline_model_parallel_size: ${PRIMUS_PP:4}
            num_virtual_stages_per_pipeline_rank: 2  # goes
            recompute_granularity: full # TODO
            recompute_method:
            lr: 1.0e-5

            # --- the end
    other: {keep: [1,2 ,3]}
"""
BEST = TrainingConfig(
    tensor_parallel_size=8,
    pipeline_parallel_size=4,
    micro_batch_size=2,
    recompute_granularity="selective",
    recompute_modules=("layernorm", "moe_act"),
)


def keys_of(text: str) -> dict[str, Any]:
    keys: dict[str, Any] = yaml.safe_load(text)["modules"]["pre_trainer"]["overrides"]
    return keys


def test_every_line_that_is_not_the_configurations_stays_as_it_was() -> None:
    merged, _ = merged_experiment(OWN, mixtral_problem(), BEST)
    before, after = OWN.splitlines(), merged.splitlines()
    tuned = ("tensor_model", "pipeline_model", "num_virtual", "recompute_")
    kept = [line for line in before if not line.strip().startswith(tuned)]
    assert [line for line in after if line in kept] == kept
    assert "            tensor_model_parallel_size: 8   # one node" in after
    assert "            pipeline_model_parallel_size: 4" in after
    assert "            recompute_granularity: selective # TODO" in after
    assert "            recompute_modules: [layernorm, moe_act]" in after


def test_what_the_best_leaves_out_does_not_stay_behind() -> None:
    merged, _ = merged_experiment(OWN, mixtral_problem(), BEST)
    assert not {"num_virtual_stages_per_pipeline_rank", "recompute_method"} & set(keys_of(merged))


def test_the_merged_experiment_reads_back_as_the_best() -> None:
    merged, notes = merged_experiment(OWN, mixtral_problem(), BEST)
    assert primus.parse(merged) == BEST
    assert notes == []
    assert merged_experiment(merged, mixtral_problem(), BEST)[0] == merged


def test_an_experiment_that_is_about_something_else_is_noted() -> None:
    _, notes = merged_experiment(OWN.replace("8192", "4096"), mixtral_problem(), BEST)
    assert notes == ["seq_length is 4096 in the file and 8192 in the run: the result was found for the latter"]


def test_windows_line_ends_stay() -> None:
    merged, _ = merged_experiment(OWN.replace("\n", "\r\n"), mixtral_problem(), BEST)
    assert merged.count("\n") == merged.count("\r\n")
    assert primus.parse(merged) == BEST


@pytest.mark.parametrize(
    "tail", ["overrides:\n", "overrides: {}\n", "overrides:  # none yet\n", "overrides: {}", "overrides:"]
)
def test_an_experiment_without_overrides_gets_them(tail: str) -> None:
    merged, _ = merged_experiment(f"modules:\n  pre_trainer:\n    {tail}", mixtral_problem(), BEST)
    assert primus.parse(merged) == BEST


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "is not YAML"),
        ("a: 1\na: 2\n", "is not YAML"),
        ("modules: {}\n", "modules.pre_trainer.overrides"),
        ("- 1\n", "modules.pre_trainer.overrides"),
        ("modules:\n  pre_trainer:\n    overrides: [1]\n", "is missing or no mapping"),
        ("modules:\n  pre_trainer:\n    overrides: {lr: 1}\n", "is written in braces"),
        (
            "x: &t {a: 1}\nmodules:\n  pre_trainer:\n    overrides:\n      <<: *t\n      lr: 1\n      lr: 2\n",
            "lr: None: is given twice",
        ),
        ("x: &t 1\nmodules:\n  pre_trainer:\n    overrides:\n      micro_batch_size: &m 1\n      y: *m\n", "anchor"),
    ],
)
def test_what_cannot_be_changed_safely_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        merged_experiment(text, mixtral_problem(), BEST)


def test_an_alias_is_replaced_where_it_is_used_and_not_where_it_is_defined() -> None:
    text = "size: &size 1\nmodules:\n  pre_trainer:\n    overrides:\n      micro_batch_size: *size # ours\n"
    merged, _ = merged_experiment(text, mixtral_problem(), BEST)
    assert merged.startswith("size: &size 1\n")
    assert "      micro_batch_size: 2 # ours\n" in merged


plain = st.one_of(st.integers(-99, 99), st.booleans(), st.none(), st.sampled_from(["a b", "x: y", "#c", "on", "~", ""]))
names = st.sampled_from(["a", "b", "c", "d", "e"])


@given(st.dictionaries(names, plain, min_size=1), st.dictionaries(names, plain), st.sets(names), st.booleans())
def test_any_mapping_takes_any_values(
    before: dict[str, Any], values: dict[str, Any], gone: set[str], comments: bool
) -> None:
    lines = yaml.safe_dump(before, sort_keys=False).splitlines()
    text = "top:\n" + "".join(f"  {line}{'  # why' if comments else ''}\n" for line in lines) + "end: 1\n"
    merged = with_values(text, ("top",), values, frozenset(gone))
    expected = {name: value for name, value in before.items() if name not in gone or name in values} | values
    assert mapping_at(merged, ("top",)) == expected
    assert mapping_at(merged, ())["end"] == 1
    assert merged.endswith("end: 1\n")


def test_the_difference_is_shown_and_written_only_when_asked(tmp_path: Path) -> None:
    ledger, file = tmp_path / "run.jsonl", tmp_path / "mine.yaml"
    ledger.write_text(chained(reported_run())[0])
    file.write_text(OWN)
    shown = tunewright("apply-to", str(file), str(ledger))
    assert shown.returncode == 0, shown.stderr
    assert file.read_text() == OWN
    assert "-            num_virtual_stages_per_pipeline_rank: 2  # goes" in shown.stdout.splitlines()
    assert "nothing was written: add --write" in shown.stderr
    written = tunewright("apply-to", str(file), str(ledger), "--write")
    assert written.stdout == shown.stdout
    assert file.read_text() != OWN
    again = tunewright("apply-to", str(file), str(ledger), "--write")
    assert (again.returncode, again.stdout) == (0, "")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    ledger = tmp_path / "run.jsonl"
    ledger.write_text(chained(reported_run())[0])
    done = tunewright("apply-to", str(tmp_path / "no.yaml"), str(ledger))
    assert done.returncode == 2
    assert done.stderr.startswith("error: FILE: '") and "cannot be read" in done.stderr
