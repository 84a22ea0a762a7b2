"""The line that says what a retune changed."""

from __future__ import annotations

from typing import Any

from tunelaunch.report.retune import retune_lines


def row(state: str, tactic: int, before: int | None, tokens: int = 8) -> dict[str, Any]:
    made: dict[str, Any] = {"state": state, "tactic": tactic, "tokens": tokens, "us": 91.04}
    if before is not None:
        made["before"] = {"runner": "R", "tactic": before, "us": {"winner": 100.0}}
    return made


def report(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"ops": [{"op": "moe::gemm1", "rows": list(rows)}]}


def test_a_start_without_incumbents_says_nothing() -> None:
    assert retune_lines(report(row("tuned", 4, None), row("loaded", 4, None))) == []
    assert retune_lines({}) == []


def test_kept_and_changed_rows_are_counted_and_named_with_times() -> None:
    assert retune_lines(report(row("kept", 4, 4), row("tuned", 3, 4))) == [
        "retune: 1 of 2 rows kept, 1 changed: moe::gemm1 at 8 tokens 4 -> 3 (100.0 -> 91.0 us)"
    ]


def test_all_kept() -> None:
    assert retune_lines(report(row("kept", 4, 4))) == ["retune: 1 of 1 rows kept, 0 changed"]


def test_many_changes_are_counted() -> None:
    (line,) = retune_lines(report(*(row("tuned", 3, 4, tokens) for tokens in range(5))))
    assert line.endswith("; 2 more in: tunelaunch cache diff")


def test_a_row_without_figures_is_still_said() -> None:
    changed = {"state": "tuned", "tactic": 3, "before": {"tactic": 4}}
    assert retune_lines(report(changed))[0].endswith("moe::gemm1 at None tokens 4 -> 3 (? -> ? us)")
