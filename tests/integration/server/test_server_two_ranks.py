"""Tensor parallelism on two CPU ranks: equal rows by construction, and nobody waits for a rank that is without us."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from evidence import expected_profiles
from serverkit import Ran, serve

from tunelaunch.ranks.agree import RENDEZVOUS_SECONDS

pytestmark = pytest.mark.server

WITHOUT_US = '''
"""A plugin that comes before tunelaunch's and hides the launch from it, on rank 1 only."""
import os, sys

def register():
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "run_scheduler_process" and frame.f_locals["tp_rank"] == 1:
            del os.environ["TUNELAUNCH_LAUNCH"]
            print("rank 1 is without tunelaunch", flush=True)
        frame = frame.f_back
'''


def _two_ranks(directory: Path, model: Path, **variables: str) -> Ran:
    cores = sorted(os.sched_getaffinity(0))
    return serve(
        directory,
        model,
        "--tunelaunch-effort",
        "quick",  # two ranks on two busy cores are slow to time anything, and no figure is looked at here
        flags=("--tp", "2"),
        SGLANG_CPU_OMP_THREADS_BIND=f"{cores[0]}|{cores[-1]}",
        SGLANG_NCCL_SO_PATH="/nonexistent",
        # What torch compiles for two ranks takes longer than all the rest; it is no part of any tuning.
        TORCHINDUCTOR_CACHE_DIR=str(directory.parent / "compiled"),
        **variables,
    )


@pytest.fixture(scope="module")
def cold2(place: Path, model: Path) -> Ran:
    return _two_ranks(place / "two", model)


@pytest.fixture(scope="module")
def warm2(place: Path, model_elsewhere: Path, cold2: Ran) -> Ran:
    shutil.copytree(cold2.directory / "root", place / "two-again" / "root")
    return _two_ranks(place / "two-again", model_elsewhere)


@pytest.fixture(scope="module")
def one_without(place: Path, model: Path) -> Ran:
    site = place / "first-plugin"
    (site / "aaa-0.1.dist-info").mkdir(parents=True)
    (site / "aaa.py").write_text(WITHOUT_US)
    (site / "aaa-0.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: aaa\nVersion: 0.1\n")
    (site / "aaa-0.1.dist-info" / "entry_points.txt").write_text("[sglang.srt.plugins]\naaa = aaa:register\n")
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    return _two_ranks(place / "one-without", model, PYTHONPATH=path)


def test_both_ranks_tune_in_lockstep_and_end_with_the_same_rows(cold2: Ran, plain: Ran) -> None:
    assert cold2.counts == {rank: expected_profiles(cold2.saved[rank]) for rank in (0, 1)}
    settled = [path.read_bytes() for path in sorted(cold2.directory.glob("run/*/*/rank-*/settled.json"))]
    assert len(settled) == 2
    assert settled[0] == settled[1]
    assert cold2.tokens == plain.tokens


def test_the_report_holds_both_receipts(cold2: Ran) -> None:
    assert [(r["rank"], r["world"], r["state"], r["leader"]) for r in cold2.receipts] == [
        (0, 2, "active", True),
        (1, 2, "active", False),
    ]
    assert cold2.report["ranks"] == [0, 1]
    assert cold2.report["missing_ranks"] == cold2.report["unequal_ranks"] == cold2.report["fallbacks"] == []
    assert cold2.report["profiles"] == cold2.profiles


def test_the_second_start_profiles_nothing_on_both_ranks(cold2: Ran, warm2: Ran) -> None:
    assert warm2.counts == {0: 0, 1: 0}
    assert warm2.saved[0].keys() == warm2.saved[1].keys() == cold2.saved[0].keys()
    assert warm2.tokens == cold2.tokens


def test_a_rank_without_us_is_named_and_both_serve_as_plain_sglang(one_without: Ran, plain: Ran) -> None:
    assert one_without.said("rank 1 is without tunelaunch")
    assert one_without.report["missing_ranks"] == [1]
    assert [r["rank"] for r in one_without.receipts] == [0]
    [line] = one_without.report["fallbacks"]
    assert "no word from rank 1" in line
    assert one_without.said("ranks without a receipt: 1 (of 2)")
    assert one_without.tokens == plain.tokens
    # Tuned by SGLang alone: its one pass at 16 tokens, alike on both ranks, and no table.
    assert one_without.counts[0] == one_without.counts[1] > 0
    assert not list(one_without.directory.glob("root/v1/*/*/table.json"))


def test_nobody_waits_longer_than_the_rendezvous(one_without: Ran, cold2: Ran) -> None:
    assert one_without.seconds < cold2.seconds + RENDEZVOUS_SECONDS + 15
