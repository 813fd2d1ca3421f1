"""The verdict of a large batch equals the itemised one of every row."""

import numpy as np

from tests.unit.memory.examples import H100, LLAMA_3_70B, MIXTRAL_8X22B, problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory import estimate, fit, screen

CONFIGS = [
    TrainingConfig(
        tensor_parallel_size=tensor,
        pipeline_parallel_size=pipeline,
        micro_batch_size=micro,
        pipeline_schedule=schedule,
        virtual_pipeline_parallel_size=2 if schedule == "v-half" else 1,
    )
    for micro in (1, 4)
    for schedule in ("1f1b", "v-half")
    for tensor in (1, 8)
    for pipeline in (1, 2, 8)
]


def test_screening_says_what_fit_says_of_each_row() -> None:
    for model in (LLAMA_3_70B, MIXTRAL_8X22B):
        posed, batch = problem(model, 64, H100), ConfigBatch.of(CONFIGS)
        screened = screen(posed, batch)
        result = estimate(posed, batch)
        verdict = fit(posed, result)
        np.testing.assert_array_equal(screened.fits, verdict.fits)
        np.testing.assert_array_equal(screened.tight, verdict.tight)
        np.testing.assert_array_equal(screened.allocated_bytes, result.allocated_bytes)
        np.testing.assert_array_equal(screened.device_bytes, result.device_bytes)
        assert 0 < screened.fits.sum() < len(batch)


def test_blocks_cover_a_batch_larger_than_one_of_them() -> None:
    posed = problem(LLAMA_3_70B, 64)
    batch = ConfigBatch.of(CONFIGS)
    many = batch.take(np.resize(np.arange(len(batch)), 20_000))
    once, often = screen(posed, batch), screen(posed, many)
    np.testing.assert_array_equal(often.allocated_bytes, np.resize(once.allocated_bytes, 20_000))


def test_an_empty_batch_has_no_verdicts() -> None:
    assert len(screen(problem(), ConfigBatch.of([])).fits) == 0
