"""Which trials follow from what a pass found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tunelaunch.ranks.cases import EFFORTS, Found, plan
from tunelaunch.store import Row

GEMM1, GEMM2 = "moe::gemm1", "moe::gemm2"
TRIABLE = {"layer": None}


def found(op: str, tokens: int | None, state: str = "tuned", owner: str | None = "layer", **more: Any) -> Found:
    timings: Sequence[tuple[str, Any, float]] = [("R", 4, 10.0), ("R", 6, 10.2), ("R", 7, 10.4), ("R", 8, 99.0)]
    given: dict[str, Any] = {"value": ("R", 4), "timings": timings, "asked_tokens": 8, **more}
    return Found(op=op, scope="s", key=f"{op}@{tokens}", tokens=tokens, owner=owner, state=state, **given)


def planned(rows: list[Found], **more: Any) -> Any:
    return plan(rows, **{"effort": EFFORTS["normal"], "triable": TRIABLE, "incumbents": {}, **more})


def test_stages_of_one_layer_and_bucket_are_tried_together() -> None:
    made = planned([found(op, tokens) for tokens in (1, 2, 8) for op in (GEMM1, GEMM2)])
    assert [case.tokens for case in made.cases] == [1, 2, 8]
    assert all([op for op, _, _ in case.stages] == [GEMM1, GEMM2] for case in made.cases)
    assert made.cases[0].candidates[0] == ((GEMM1, None, -1), (GEMM2, None, -1))
    assert made.cases[0].tried == len(made.cases[0].candidates)


def test_a_size_between_two_buckets_is_checked_with_the_larger_ones_row() -> None:
    made = planned([found(GEMM1, tokens) for tokens in (1, 2, 8)])
    assert [case.between for case in made.cases] == [None, None, 5]


def test_loaded_rows_are_left_alone_unless_they_are_to_be_looked_at_again() -> None:
    rows = [found(GEMM1, 8, "loaded"), found(GEMM2, 8, "loaded")]
    assert planned(rows).cases == ()
    (case,) = planned(rows, recheck=lambda stage: stage[0] == GEMM1).cases
    assert case.recheck
    assert case.candidates[1] == ((GEMM1, "R", 4), (GEMM2, "R", 4))


def test_a_loaded_default_is_not_looked_at_again() -> None:
    assert planned([found(GEMM1, 8, "loaded", value=("R", -1))], recheck=lambda stage: True).cases == ()


def test_a_loaded_stage_runs_as_it_is_beside_a_new_one() -> None:
    (case,) = planned([found(GEMM1, 8, "loaded", value=("R", 9)), found(GEMM2, 8)]).cases
    assert {entry[2] for combo in case.candidates for entry in combo if entry[0] == GEMM1} == {9, -1}


def test_quarantined_tactics_are_never_tried() -> None:
    hidden = frozenset({(f"{GEMM1}@8", "s", "R", "4")})
    (case,) = planned([found(GEMM1, 8)], hidden=hidden).cases
    assert all(entry[2] != 4 for combo in case.candidates for entry in combo)


def test_what_cannot_be_tried_is_said() -> None:
    made = planned(
        [found(GEMM1, 8, owner="other"), found(GEMM2, None), found("op3", 8, owner=None)],
        triable={"layer": None, "other": "its layer talks to other ranks"},
    )
    assert made.cases == ()
    assert sorted(made.untried.values()) == [
        "it has no single token dimension",
        "its layer is not known",
        "its layer talks to other ranks",
    ]


def test_the_incumbent_of_all_stages_races() -> None:
    old = {
        (op, "s", f"{op}@8"): Row(key=f"{op}@8", value=["R", tactic], scope="s", op=op)
        for op, tactic in ((GEMM1, 11), (GEMM2, -1))
    }
    (case,) = planned([found(GEMM1, 8), found(GEMM2, 8)], incumbents=old).cases
    assert case.incumbent == ((GEMM1, "R", 11), (GEMM2, None, -1))
    assert case.incumbent in case.candidates


def test_rows_that_only_another_rank_has_get_no_trial_of_their_own() -> None:
    (case,) = planned([found(GEMM1, 8), found(GEMM1, 8, rank=1)]).cases
    assert len(case.stages) == 1
