"""The wrong backend for the card is said by the launcher, before SGLang starts; refused only when strict."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timezone
from pathlib import Path

import pytest
from doctorkit import DATA, GB10, PRO

from tunelaunch.device.nvml import NvmlReading
from tunelaunch.device.recorded import recorded
from tunelaunch.doctor.early import early_lines
from tunelaunch.errors import TunelaunchError
from tunelaunch.launch import LaunchPlan, Own, plan_launch

TODAY = date(2026, 12, 1)
B200 = recorded(DATA, "NVIDIA B200")
WRONG = ["--moe-runner-backend", "flashinfer_trtllm"]


@pytest.mark.parametrize("given", [WRONG, ["=".join(WRONG)]])
def test_one_line_names_argument_card_and_what_to_use(given: list[str]) -> None:
    (line,) = early_lines([replace(PRO, index=0), replace(PRO, index=1)], {}, ["--tp", "2", *given], TODAY)
    assert line.startswith("--moe-runner-backend flashinfer_trtllm on SM120: ")
    assert line.endswith("use instead: --moe-runner-backend flashinfer_cutlass")


def test_only_cards_that_cuda_shows_and_whole_arguments_count() -> None:
    card = replace(PRO, index=0)
    assert early_lines([replace(B200, index=0)], {}, WRONG, TODAY) == []
    assert early_lines([card], {"CUDA_VISIBLE_DEVICES": ""}, WRONG, TODAY) == []
    assert early_lines([card], {}, WRONG[:1], TODAY) == []
    assert early_lines([card], {}, ["--moe-runner-backend", "flashinfer_cutlass"], TODAY) == []


def plan(tmp_path: Path, own: Own, *arguments: str) -> LaunchPlan:
    environ = {"XDG_RUNTIME_DIR": str(tmp_path), "TUNELAUNCH_CACHE_DIR": str(tmp_path / "root")}
    return plan_launch(
        own,
        arguments,
        environ,
        datetime(2026, 2, 3, tzinfo=timezone.utc),
        read_nvml=lambda: NvmlReading((replace(GB10, index=0),)),
        plugin_visible=lambda: True,
    )


def test_the_launcher_says_it_and_starts(tmp_path: Path) -> None:
    made = plan(tmp_path, Own(), *WRONG)
    assert made.argv[-2:] == tuple(WRONG)
    assert [note for note in made.notes if "on SM121: the trtllm-gen MoE kernels" in note]
    assert len(plan(tmp_path, Own(), "--moe-runner-backend", "flashinfer_cutlass").notes) == len(made.notes) - 1


def test_strict_refuses_it(tmp_path: Path) -> None:
    with pytest.raises(TunelaunchError, match="flashinfer_cutlass; not started because of --tunelaunch-strict"):
        plan(tmp_path, Own(strict=True), *WRONG)
