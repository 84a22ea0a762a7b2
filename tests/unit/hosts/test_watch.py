"""Watching and forcing FlashInfer's real AutoTuner leave nothing behind."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from flashinfer.autotuner import AutoTuner, TunableRunner, TuningConfig

from tunelaunch.hosts.watch import DEFAULT, Watch, forcing, watching


class Runner(TunableRunner):
    def get_valid_tactics(self, inputs: Any, profile: Any) -> list[int]:
        return [0, 1]

    def forward(self, inputs: Any, tactic: int = -1, do_preparation: bool = False, **kwargs: Any) -> Any:
        return inputs[0]


def methods() -> tuple[Any, ...]:
    tuner = AutoTuner.get()
    return AutoTuner.choose_one, AutoTuner._profile_single_kernel, tuner.stream_delay_micro_secs


def choose(op: str = "test::op") -> Any:
    return AutoTuner.get().choose_one(op, [Runner()], TuningConfig(), [torch.zeros(2, 2)])


def watch() -> Watch:
    def fail(bug: BaseException) -> None:
        raise AssertionError("no fault of ours was expected") from bug

    return Watch(cap=64, feed=lambda op, scope: None, owner=lambda: None, on_bug=fail)


@pytest.mark.parametrize("fails", [False, True])
def test_the_autotuner_is_as_it_was_afterwards(fails: bool) -> None:
    before = methods()
    try:
        with watching(watch()), forcing({"test::op": DEFAULT}):
            assert methods()[:2] != before[:2]
            if fails:
                raise RuntimeError("of the host")
    except RuntimeError:
        assert fails
    assert methods() == before


def test_forcing_hands_out_the_tactic_and_counts_calls() -> None:
    with forcing({"test::op": (None, [[128, 16], True, 4])}) as called:
        assert choose()[1] == ((128, 16), True, 4)
        assert choose("test::other")[1] == -1
    assert called == {"test::op": 1}


def test_forcing_takes_the_runner_of_that_name() -> None:
    class Other(Runner):
        pass

    runners = [Runner(), Other()]
    with forcing({"test::op": ("Other", 1)}):
        runner, tactic = AutoTuner.get().choose_one("test::op", runners, TuningConfig(), [torch.zeros(1)])
    assert (runner, tactic) == (runners[1], 1)


def test_calls_outside_tuning_are_not_watched() -> None:
    seen = watch()
    with watching(seen):
        choose()
    assert seen.calls == {}
    assert seen.profiles_run == 0
