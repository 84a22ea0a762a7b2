"""What counts as wrong when two outputs are compared."""

from __future__ import annotations

import pytest
import torch

from tunelaunch.ranks.numbers import THRESHOLDS, Check, compare

LIMIT = THRESHOLDS[2]


def outputs() -> torch.Tensor:
    return torch.randn(24, 64, generator=torch.Generator().manual_seed(0))


def test_rounding_to_bf16_passes() -> None:
    reference = outputs()
    frobenius, _, wrong = compare(reference.bfloat16().float(), reference, LIMIT)
    assert wrong is None
    assert 0.0 < frobenius < 0.005


@pytest.mark.parametrize("how", ["nan", "inf", "unwritten tail", "30 % off", "one row"])
def test_a_fault_is_found(how: str) -> None:
    reference = outputs()
    output = reference.clone()
    if how == "nan":
        output[3, 5] = float("nan")
    elif how == "inf":
        output[3, 5] = float("inf")
    elif how == "unwritten tail":
        output[-2:] = float("nan")
    elif how == "30 % off":
        output *= 1.3
    else:
        output[7] = output[7].flip(0)
    assert compare(output, reference, LIMIT)[2] is not None


def test_rows_that_are_not_finite_are_counted() -> None:
    output = outputs()
    output[-2:] = float("nan")
    assert compare(output, outputs(), LIMIT)[2] == "2 of 24 rows not finite or not written"


def test_the_worse_of_two_checks_counts_and_both_sizes_are_named() -> None:
    good = Check((8,), 0.004, 0.005, LIMIT)
    bad = Check((5,), 0.3, 0.4, LIMIT, "differs")
    assert good.worse_of(bad).wrong == "differs"
    assert bad.worse_of(good).wrong == "differs"
    assert good.worse_of(bad).tokens == (8, 5)
