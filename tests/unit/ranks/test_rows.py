"""From a settled pass to rows: what is installed, what is stored, and what is only said."""

from __future__ import annotations

from typing import Any

from tunelaunch.ranks.cases import EFFORTS, Case, Found
from tunelaunch.ranks.decide import Verdict
from tunelaunch.ranks.numbers import Check
from tunelaunch.ranks.outcome import Outcome, Rules
from tunelaunch.ranks.rows import Settled, rows_of
from tunelaunch.store import Row

OP = "moe::gemm1"
STAMP = {"launch": "l1", "at": "2026-01-01T00:00:00Z"}


def found(tokens: int = 8, state: str = "tuned", **more: Any) -> Found:
    given: dict[str, Any] = {"value": ("R", 4, {"policy": 1}), "timings": (("R", 4, 9.0),), "asked_tokens": 8, **more}
    return Found(op=OP, scope="s", key=f"k{tokens}", tokens=tokens, owner="layer", state=state, **given)


def case(tokens: int = 8, *choices: int, **more: Any) -> Case:
    combos = tuple(((OP, "R" if t != -1 else None, t),) for t in (-1, *choices))
    return Case("layer", tokens, 5, ((OP, "s", f"k{tokens}"),), combos, tried=9, **more)


def verdict(index: int, us: float = 70.0) -> Verdict:
    return Verdict(index, "fastest" if index else "not faster", us, 100.0, 75.0, 0.5)


def build(rows: list[Found], outcome: Outcome | None = None, **more: Any) -> Settled:
    made = outcome or Outcome()
    made.found = rows
    old: dict[Any, Row] = more.pop("given", {})
    rules = Rules(EFFORTS["normal"], 3.0, True, **more)
    return rows_of(made, lambda op, scope, key: old.get(key), rules, STAMP)


def test_a_tuned_row_keeps_the_hosts_value_list_and_carries_its_evidence() -> None:
    outcome = Outcome(cases=[case(8, 6)], verdicts={("layer", 8): verdict(1)})
    outcome.checks["layer", 8] = Check((8, 5), 0.004, 0.005, (0.02, 0.1))
    settled = build([found()], outcome)
    (row,) = settled.store
    assert row.value == ["R", 6, {"policy": 1}]
    assert row.evidence["us"] == {"winner": 70.0, "default": 100.0, "runner_up": 75.0}
    assert row.evidence["gain_percent"] == 30.0
    assert row.evidence["checked"]["tokens"] == [8, 5]
    assert row.evidence["launch"] == "l1"
    assert settled.states == {(OP, "s", "k8"): "tuned"}


def test_default_by_choice_is_stored_and_installed_as_a_hit() -> None:
    settled = build([found()], Outcome(cases=[case(8, 6)], verdicts={("layer", 8): verdict(0, 100.0)}))
    (row,) = settled.store
    assert row.is_default
    assert row.evidence["choice"] == "default"
    assert settled.install[OP, "s", "k8"] == row


def test_a_loaded_row_stays_as_it_was() -> None:
    old = Row(key="k8", value=["R", 4], scope="s", op=OP, evidence={"gain_percent": 12.0})
    settled = build([found(state="loaded")], given={"k8": old})
    assert settled.store == []
    assert settled.install[OP, "s", "k8"] is old


def test_a_loaded_row_found_wrong_runs_at_default_and_nothing_is_stored() -> None:
    outcome = Outcome(cases=[case(8, 4, recheck=True)], verdicts={("layer", 8): verdict(0)})
    settled = build([found(state="loaded")], outcome)
    assert settled.store == []
    assert settled.install[OP, "s", "k8"].is_default
    assert settled.states[OP, "s", "k8"] == "failed"


def test_an_incumbent_that_is_chosen_again_keeps_its_row() -> None:
    old = Row(key="k8", value=["R", 6], scope="s", op=OP, evidence={"at": "earlier"})
    outcome = Outcome(cases=[case(8, 6)], verdicts={("layer", 8): verdict(1)})
    settled = build([found()], outcome, incumbents={(OP, "s", "k8"): old})
    assert settled.store == []
    assert settled.install[OP, "s", "k8"] is old
    assert settled.states[OP, "s", "k8"] == "kept"


def test_a_lost_trial_runs_at_default_and_is_never_stored_as_a_choice() -> None:
    settled = build([found()], Outcome(cases=[case(8, 6)], lost={("layer", 8): "OutOfMemoryError: no"}))
    assert settled.store == []
    assert settled.install[OP, "s", "k8"].is_default
    assert settled.why[OP, "s", "k8"] == "OutOfMemoryError: no"


def test_without_a_trial_a_pick_stays_up_to_the_size_that_sglang_alone_tunes() -> None:
    settled = build([found(8), found(64)], Outcome(untried={(OP, "s", "k8"): "no layer", (OP, "s", "k64"): "no layer"}))
    assert [row.key for row in settled.store] == ["k8"]
    assert settled.store[0].evidence["trial"] == "none: no layer"
    assert settled.install[OP, "s", "k64"].is_default
    assert settled.states[OP, "s", "k64"] == "failed"


def test_without_a_trial_a_quarantined_pick_is_not_kept() -> None:
    settled = build([found(8)], hidden=frozenset({("k8", "s", "R", "4")}))
    assert settled.store == []
    assert settled.install[OP, "s", "k8"].is_default


def test_a_row_that_nothing_ran_for_is_neither_installed_nor_stored() -> None:
    settled = build([found(state="failed", value=(), timings=(), failed=3)])
    assert settled.store == []
    assert settled.install == {}
    assert settled.why[OP, "s", "k8"] == "no tactic ran in the profile (3 failed)"


def test_another_ranks_key_gets_the_leaders_verdict_and_its_place_in_the_set() -> None:
    rows = [
        found(carries_ranks=True),
        Found(OP, "s", "k8r1", 8, "layer", "tuned", ("R", 9), carries_ranks=True, rank=1),
    ]
    outcome = Outcome(cases=[case(8, 6)], verdicts={("layer", 8): verdict(1)}, found=rows)
    settled = rows_of(outcome, lambda *_: None, Rules(EFFORTS["normal"], 3.0, True), STAMP, world=2)
    assert [row.tactic for row in settled.store] == [6, 6]
    assert [row.set["index"] for row in settled.store if row.set] == [0, 1]
    assert len({row.set["id"] for row in settled.store if row.set}) == 1
