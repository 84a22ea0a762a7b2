"""Choices from planted timings: draws, losers, incumbents, and what a failed check excludes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunelaunch.ranks.decide import Combo, Samples, among, candidates_for, decide, finalists, mean_samples, noise


def combo(one: int, two: int) -> Combo:
    return (("gemm1", "Runner" if one != -1 else None, one), ("gemm2", "Runner" if two != -1 else None, two))


DEFAULT = combo(-1, -1)


def planted(us: dict[Combo, float], *, spread: float = 0.005, rounds: int = 11, seed: int = 1) -> Samples:
    """Timings around ``us`` with a relative ``spread`` and a common drift of 5 % over the rounds."""
    draw = random.Random(seed)

    def row(middle: float) -> tuple[float, ...]:
        return tuple(middle * (1 + 0.05 * r / rounds) * (1 + draw.uniform(-spread, spread)) for r in range(rounds))

    candidates = (DEFAULT, *(c for c in us if c != DEFAULT))
    return Samples(candidates, tuple(row(us[c]) for c in candidates), row(us[DEFAULT]))


def chosen(samples: Samples, **kwargs: object) -> Combo:
    verdict = decide(samples, **{"min_gain_percent": 3.0, **kwargs})  # type: ignore[arg-type]
    return samples.candidates[verdict.index]


def test_the_profiles_winner_that_loses_in_the_op_never_replaces_default() -> None:
    samples = planted({DEFAULT: 1000.0, combo(6, 12): 1150.0, combo(1, 11): 998.0})
    verdict = decide(samples, min_gain_percent=3.0)
    assert samples.candidates[verdict.index] == DEFAULT
    assert verdict.why == "not faster"
    assert verdict.gain_percent == 0.0
    assert verdict.default_us == pytest.approx(1025.0, rel=0.03)


def test_a_gain_is_taken_and_reported() -> None:
    samples = planted({DEFAULT: 100.0, combo(3, 12): 70.0})
    verdict = decide(samples, min_gain_percent=3.0)
    assert samples.candidates[verdict.index] == combo(3, 12)
    assert verdict.gain_percent == pytest.approx(30.0, abs=1.5)


def test_another_pair_wins_where_the_profiles_own_pair_loses() -> None:
    assert chosen(planted({DEFAULT: 100.0, combo(6, 12): 115.0, combo(6, -1): 90.0})) == combo(6, -1)


def test_a_tie_goes_to_the_lowest_tactics() -> None:
    us = {DEFAULT: 100.0, combo(10, 12): 70.0, combo(9, 12): 70.05}
    assert chosen(planted(us, spread=0.02)) == combo(9, 12)


def test_the_incumbent_wins_a_tie() -> None:
    us = {DEFAULT: 100.0, combo(3, 12): 70.0, combo(9, 12): 70.3}
    assert chosen(planted(us, spread=0.02), incumbent=combo(9, 12)) == combo(9, 12)


def test_an_incumbent_that_is_beaten_beyond_noise_is_replaced() -> None:
    us = {DEFAULT: 100.0, combo(3, 12): 63.7, combo(9, 12): 70.0}
    assert chosen(planted(us), incumbent=combo(9, 12)) == combo(3, 12)


def test_an_incumbent_that_no_longer_runs_is_replaced() -> None:
    assert chosen(planted({DEFAULT: 100.0, combo(3, 12): 70.0}), incumbent=combo(9, 12)) == combo(3, 12)


def test_a_chosen_default_stays_default_at_the_edge_of_the_gain() -> None:
    us = {DEFAULT: 100.0, combo(3, 12): 96.8}
    assert chosen(planted(us)) == combo(3, 12)
    assert chosen(planted(us, spread=0.03), incumbent=DEFAULT) == DEFAULT


def test_an_incumbent_slower_than_default_beyond_noise_goes() -> None:
    assert chosen(planted({DEFAULT: 100.0, combo(3, 12): 115.0}), incumbent=combo(3, 12)) == DEFAULT


def test_a_tie_does_not_cost_the_gain() -> None:
    """The lowest of the tied misses the minimum gain, the fastest has it."""
    us = {DEFAULT: 100.0, combo(1, 12): 97.4, combo(9, 12): 96.4}
    assert chosen(planted(us, spread=0.006)) == combo(9, 12)


def test_an_excluded_choice_gives_way_to_the_next_best_and_default_is_never_excluded() -> None:
    samples = planted({DEFAULT: 100.0, combo(3, 12): 70.0, combo(9, 12): 80.0})
    assert chosen(samples, excluded=frozenset({1})) == combo(9, 12)
    assert chosen(samples, excluded=frozenset({0, 1, 2})) == DEFAULT


def test_two_tunes_that_draw_keep_every_row_and_a_real_gain_replaces_one() -> None:
    """191 rows whose differences are ties within 2 %: the second tune changes nothing but the one that is 9 % faster."""
    changed = 0
    for number in range(191):
        draw = random.Random(number)
        us = {DEFAULT: 100.0} | {combo(t, 12): 70.0 * (1 + draw.uniform(0, 0.002)) for t in range(4)}
        first = chosen(planted(us, spread=0.02, seed=number))
        if number == 17:
            other = next(c for c in us if c not in (DEFAULT, first))
            us[other] = us[first] * 0.91
        second = chosen(planted(us, spread=0.02, seed=1000 + number), incumbent=first)
        changed += second != first
        if number == 17:
            assert second == other
    assert changed == 1


def test_noise_is_measured_from_default_against_itself() -> None:
    quiet = planted({DEFAULT: 100.0, combo(1, 1): 90.0}, spread=0.0005)
    loud = planted({DEFAULT: 100.0, combo(1, 1): 90.0}, spread=0.05)
    assert noise(quiet) < 0.002 < noise(loud)


def test_ranks_decide_on_their_mean() -> None:
    one = planted({DEFAULT: 100.0, combo(3, 12): 80.0})
    two = planted({DEFAULT: 100.0, combo(3, 12): 160.0})
    assert chosen(one) == combo(3, 12)
    assert chosen(mean_samples([one, two])) == DEFAULT


def test_candidates_begin_with_default_and_the_profiles_picks_and_mix_in_default() -> None:
    stages = {"gemm1": [("R", 4), ("R", 6)], "gemm2": [("R", 12), ("R", 13)]}
    found = candidates_for(stages, limit=30)
    assert found[0] == (("gemm1", None, -1), ("gemm2", None, -1))
    assert found[1] == (("gemm1", "R", 4), ("gemm2", "R", 12))
    assert (("gemm1", None, -1), ("gemm2", "R", 12)) in found
    assert len(found) == len(set(found)) == 9
    assert len(candidates_for(stages, limit=3)) == 3


def test_the_incumbent_always_races() -> None:
    held: Combo = (("gemm1", "R", 9), ("gemm2", None, -1))
    assert held in candidates_for({"gemm1": [("R", 4)], "gemm2": [("R", 12)]}, limit=3, incumbent=held)


@given(
    st.lists(st.floats(1.0, 1e5), min_size=1, max_size=6),
    st.floats(0.0, 30.0),
    st.integers(0, 5),
)
def test_no_choice_is_slower_than_default_beyond_noise(us: list[float], gain: float, held: int) -> None:
    names = {DEFAULT: 100.0} | {combo(i, 12): value for i, value in enumerate(us)}
    samples = planted(names, spread=0.01)
    verdict = decide(samples, min_gain_percent=gain, incumbent=samples.candidates[held % len(samples.candidates)])
    assert verdict.us <= verdict.default_us * (1.0 + verdict.noise_percent / 100.0) + 1e-9


def test_the_near_best_of_a_heat_go_on_with_default_and_the_incumbent() -> None:
    us = {DEFAULT: 100.0} | {combo(t, 12): 70.0 + 2.0 * t for t in range(9)}
    samples = planted(us, spread=0.001, rounds=5)
    going = finalists(samples, incumbent=combo(8, 12))
    assert going[0] == DEFAULT
    assert combo(0, 12) in going
    assert combo(8, 12) in going
    assert combo(5, 12) not in going
    assert among(samples, going).candidates == going
    assert among(samples, going).times[-1] == samples.times[samples.candidates.index(going[-1])]


def test_what_beats_the_incumbent_must_do_so_in_both_looks() -> None:
    us = {DEFAULT: 100.0, combo(3, 12): 63.7, combo(9, 12): 70.0}
    other = us | {combo(3, 12): 70.2}
    assert chosen(planted(us), incumbent=combo(9, 12), heat=planted(us, rounds=5, seed=4)) == combo(3, 12)
    assert chosen(planted(us), incumbent=combo(9, 12), heat=planted(other, rounds=5, seed=4)) == combo(9, 12)
