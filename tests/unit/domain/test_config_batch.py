"""Selecting and grouping rows of a batch."""

import numpy as np

from tests.unit.performance.builders import a_batch
from tunewright.domain.config_batch import FIELDS, ConfigBatch, among
from tunewright.domain.training_config import TrainingConfig


def test_rows_alike_in_the_named_fields_share_the_first_of_them() -> None:
    batch = a_batch(
        {"tensor_parallel_size": 2},
        {"tensor_parallel_size": 4},
        {"tensor_parallel_size": 2, "micro_batch_size": 8},
        {"tensor_parallel_size": 2, "precision": "fp8"},
    )
    first, index = batch.distinct(("tensor_parallel_size", "precision"))
    assert sorted(first) == [0, 1, 3]
    assert first[index].tolist() == [0, 1, 0, 3]


def test_grouping_does_not_confuse_codes_that_fit_in_no_integer_together() -> None:
    huge = 2**40
    columns = {name: np.zeros(4, dtype=np.int64) for name in FIELDS}
    columns["tensor_parallel_size"] = np.array([huge, 1, huge, 1])
    columns["micro_batch_size"] = np.array([huge, huge, 3, huge])
    first, index = ConfigBatch(columns).distinct(FIELDS)
    assert first[index].tolist() == [0, 1, 2, 1]


def test_no_rows_have_no_groups() -> None:
    first, index = ConfigBatch.of([TrainingConfig()]).take([]).distinct(FIELDS)
    assert len(first) == len(index) == 0


def test_among_finds_each_of_the_values() -> None:
    assert among(np.array([3, 1, 2, 3]), (3, 2)).tolist() == [True, False, True, True]
