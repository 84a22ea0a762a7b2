"""A settled pass as the receipt carries it: counts for each op, and each row with its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tunelaunch.ranks.cases import Found
from tunelaunch.ranks.outcome import Outcome, Rules
from tunelaunch.ranks.rows import Settled
from tunelaunch.store import Row

_COUNTED = {"loaded": "loaded", "tuned": "tuned", "kept": "tuned", "default": "default", "failed": "failed"}


def describe(
    name: str, outcome: Outcome, settled: Settled, seconds: Mapping[str, float], profiles: int, rules: Rules
) -> dict[str, Any]:
    """One pass: seconds (of the host's pass, and of settling it), profiles run on this rank, and its ops."""
    ops: dict[str, dict[str, Any]] = {}
    for row in outcome.found:
        op = ops.setdefault(row.op, {"op": row.op, "loaded": 0, "tuned": 0, "default": 0, "failed": 0, "rows": []})
        state = settled.states.get(row.stage, "failed")
        op[_COUNTED[state]] += 1
        op["rows"].append(_row(row, state, settled, rules.incumbents.get(row.stage)))
    return {
        "name": name,
        "seconds": round(sum(seconds.values()), 3),
        "seconds_by_part": dict(seconds),
        "profiles": profiles,
        "profiles_by_rank": list(outcome.profiles),
        "ops": list(ops.values()),
    }


def _row(row: Found, state: str, settled: Settled, old: Row | None) -> dict[str, Any]:
    made = settled.install.get(row.stage)
    out: dict[str, Any] = {"key": row.key, "scope": row.scope, "tokens": row.tokens, "state": state}
    if made is not None:
        out |= {"runner": made.runner, "tactic": made.tactic}
    if why := settled.why.get(row.stage):
        out["why"] = why
    verdict = settled.verdicts.get(row.stage)
    if verdict is not None:
        out["us"] = round(verdict.us, 3)
        out["default_us"] = round(verdict.default_us, 3)
        out["gain_percent"] = round(verdict.gain_percent, 2)
        out["noise_percent"] = round(verdict.noise_percent, 2)
    elif made is not None and isinstance(made.evidence.get("us"), Mapping):
        out["us"], out["default_us"] = made.evidence["us"].get("winner"), made.evidence["us"].get("default")
        out["gain_percent"] = made.evidence.get("gain_percent")
        out["recorded"] = made.evidence.get("at")
    if old is not None:
        out["before"] = {"runner": old.runner, "tactic": old.tactic, "us": dict(old.evidence).get("us")}
    return out
