"""From a settled pass to rows: what is installed on every rank, what the leader stores, and what the report says."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tunelaunch.ranks.cases import Case, Found, Stage, normal_choice
from tunelaunch.ranks.decide import Verdict
from tunelaunch.ranks.outcome import Outcome, Rules
from tunelaunch.store import Row
from tunelaunch.store.hidden import hides


@dataclass
class Settled:
    """Rows of a pass. ``install``: all that FlashInfer shall know; ``store``: new or changed rows for the table.

    ``states`` maps each wanted row to its state for the report: ``loaded``, ``tuned``, ``kept`` (an incumbent that was
    measured again and stays), ``default`` (by choice) or ``failed`` (no judgement; runs at default, not stored).
    """

    install: dict[Stage, Row] = field(default_factory=dict)
    store: list[Row] = field(default_factory=list)
    states: dict[Stage, str] = field(default_factory=dict)
    why: dict[Stage, str] = field(default_factory=dict)
    verdicts: dict[Stage, Verdict] = field(default_factory=dict)


def rows_of(
    outcome: Outcome,
    given: Callable[[str, str | None, str], Row | None],
    rules: Rules,
    stamp: Mapping[str, Any],
    world: int = 1,
) -> Settled:
    """Build the rows. ``given`` finds a row that this process was fed; ``stamp`` is added to the evidence of new rows."""
    incumbents = rules.incumbents
    settled = Settled()
    cases = {(case.owner, case.tokens): case for case in outcome.cases}
    for row in outcome.found:
        case = cases.get((row.owner or "", row.tokens or 0))
        verdict = outcome.verdicts.get((case.owner, case.tokens)) if case is not None else None
        if row.state == "loaded" and (verdict is None or verdict.index != 0):
            _keep(settled, row, given(row.op, row.scope, row.key))
        elif row.state == "loaded":
            settled.states[row.stage], settled.why[row.stage] = "failed", "the loaded choice is wrong; runs at default"
            settled.install[row.stage] = Row(key=row.key, value=_at_default(row), scope=row.scope, op=row.op)
        elif case is not None and verdict is not None:
            _judge(settled, row, case, verdict, outcome, incumbents, stamp, world)
        elif row.state == "tuned" and case is None and _plain_would(row) and not _hidden(row, rules):
            reason = outcome.untried.get(row.stage, "not tried")
            evidence = {
                **stamp,
                "choice": "profile",
                "tokens": row.tokens,
                "trial": f"none: {reason}",
                "profile": _profile(row),
            }
            _add(settled, row, _new(row, row.value, evidence, stamp, world), "tuned", reason, store=True)
        else:
            reason = _why_not(row, case, outcome)
            settled.states[row.stage], settled.why[row.stage] = "failed", reason
            if row.value:
                settled.install[row.stage] = Row(key=row.key, value=_at_default(row), scope=row.scope, op=row.op)
    return settled


def _plain_would(row: Found) -> bool:
    """Whether SGLang alone would have tuned the row in this pass."""
    return row.tokens is None or row.tokens <= row.asked_tokens


def _hidden(row: Found, rules: Rules) -> bool:
    return hides(rules.hidden, row.op, row.key, row.scope, str(row.value[0]), row.value[1])


def _keep(settled: Settled, row: Found, fed: Row | None) -> None:
    kept = fed or Row(key=row.key, value=list(row.value), scope=row.scope, op=row.op)
    _add(settled, row, kept, "loaded", "", store=False)


def _judge(
    settled: Settled,
    row: Found,
    case: Case,
    verdict: Verdict,
    outcome: Outcome,
    incumbents: Mapping[Stage, Row],
    stamp: Mapping[str, Any],
    world: int,
) -> None:
    combo = case.candidates[verdict.index]
    _, runner, tactic = next(entry for entry in combo if entry[0] == row.op)
    settled.verdicts[row.stage] = verdict
    old = incumbents.get(row.stage)
    if old is not None and normal_choice(old.runner, old.tactic) == (runner, tactic):
        _add(settled, row, old, "kept", verdict.why, store=False)
        return
    if not row.value and runner is None:
        settled.states[row.stage], settled.why[row.stage] = "failed", "no tactic ran in the profile"
        return
    evidence = {
        **stamp,
        "choice": "default" if tactic == -1 else "tuned",
        "why": verdict.why,
        "tokens": case.tokens,
        "us": {
            "winner": round(verdict.us, 3),
            "default": round(verdict.default_us, 3),
            "runner_up": None if verdict.runner_up_us is None else round(verdict.runner_up_us, 3),
        },
        "gain_percent": round(verdict.gain_percent, 2),
        "noise_percent": round(verdict.noise_percent, 2),
        "with": {op: t for op, _, t in combo if op != row.op},
        "tried": case.tried,
        "profile": _profile(row),
    }
    check = outcome.checks.get((case.owner, case.tokens))
    if check is not None and verdict.index != 0 and check.wrong is None:
        evidence["checked"] = {
            "frobenius": check.frobenius,
            "worst_row": check.worst_row,
            "limits": list(check.limit),
            "tokens": list(check.tokens),
        }
    value = _at_default(row) if tactic == -1 else [runner, tactic, *row.value[2:]]
    state = "default" if tactic == -1 else "tuned"
    _add(settled, row, _new(row, value, evidence, stamp, world), state, verdict.why, store=True)


def _new(row: Found, value: Any, evidence: Mapping[str, Any], stamp: Mapping[str, Any], world: int) -> Row:
    group = None
    if row.carries_ranks and world > 1:
        name = hashlib.sha256(f"{stamp.get('launch')}|{row.op}|{world}".encode()).hexdigest()[:12]
        group = {"id": name, "size": world, "index": row.rank}
    return Row(key=row.key, value=list(value), scope=row.scope, op=row.op, evidence=evidence, set=group)


def _add(settled: Settled, row: Found, made: Row, state: str, why: str, *, store: bool) -> None:
    settled.install[row.stage] = made
    settled.states[row.stage], settled.why[row.stage] = state, why
    if store:
        settled.store.append(made)


def _at_default(row: Found) -> list[Any]:
    return [row.value[0], -1, *row.value[2:]]


def _profile(row: Found) -> dict[str, Any]:
    """What FlashInfer's own profile of this stage said, in microseconds of the kernel alone."""
    best = [{"runner": r, "tactic": t, "us": round(us, 3)} for r, t, us in row.timings[:3]]
    return {"best": best, "failed": row.failed}


def _why_not(row: Found, case: Case | None, outcome: Outcome) -> str:
    if case is not None and (lost := outcome.lost.get((case.owner, case.tokens))):
        return lost
    if row.state == "failed":
        return f"no tactic ran in the profile ({row.failed} failed)" if row.failed else "not profiled (out of memory?)"
    return (
        f"larger than SGLang's own pass ({row.asked_tokens} tokens) and {outcome.untried.get(row.stage, 'not tried')}"
    )
