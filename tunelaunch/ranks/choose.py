"""Decide, check, and take the next best while a check fails: the leader's word, with every rank's numbers behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from tunelaunch.ranks import numbers
from tunelaunch.ranks.agree import Member, attempt
from tunelaunch.ranks.cases import Case
from tunelaunch.ranks.decide import Samples, Verdict, among, decide
from tunelaunch.ranks.numbers import Check
from tunelaunch.ranks.outcome import Bench, Outcome, Rules, Where, free_memory

MOST_CHECKS = 4
"""Times that a failed check may move a choice to the next best before default is taken."""

LOADED = Verdict(index=1, why="loaded", us=0.0, default_us=0.0, runner_up_us=None, noise_percent=0.0)
NOT_LOADED = Verdict(
    index=0, why="loaded choice is wrong", us=0.0, default_us=0.0, runner_up_us=None, noise_percent=0.0
)
"""Verdicts of a recheck, which times nothing."""

Checked = dict[Where, tuple[Check, "str | None"]]


def choose(
    member: Member,
    cases: Sequence[Case],
    samples: Mapping[Where, Samples],
    heat: Mapping[Where, Samples],
    bench: Bench,
    rules: Rules,
    outcome: Outcome,
) -> None:
    """Fill ``outcome`` with a verdict for each sampled case. Every rank makes the same exchanges."""
    by_place = {(c.owner, c.tokens): c for c in cases if c.recheck or (c.owner, c.tokens) in samples}
    excluded: dict[Where, frozenset[int]] = dict.fromkeys(by_place, frozenset())
    pending = list(by_place)
    for number in range(MOST_CHECKS + 1):
        last = number == MOST_CHECKS
        chosen, error = attempt(_decided, pending, by_place, samples, heat, excluded, rules, last)
        verdicts: dict[Where, Verdict] = member.tell("choice", chosen, error)
        outcome.verdicts.update(verdicts)
        to_check = [where for where in pending if rules.verify and verdicts[where].index != 0]
        if not to_check or last:
            return
        bench.progress(f"checking {len(to_check)} choices against default")
        checked, error = attempt(_checked, to_check, by_place, verdicts, bench, rules)
        said = [message.payload for message in member.exchange("checks", checked, error)]
        pending = []
        for where in to_check:
            case, index = by_place[where], verdicts[where].index
            seen = [rank[where] for rank in said if where in rank]
            worst = reduce(Check.worse_of, (result for result, _ in seen))
            outcome.checks[where] = worst
            if worst.wrong is None:
                continue
            pending.append(where)
            suspect = next((op for result, op in seen if result.wrong is not None), None)
            excluded[where] = _excluded(case, index, suspect, excluded[where])
            if worst.blame:
                outcome.failures.append(_failure(case, index, suspect, worst))
        if not pending:
            return


def _decided(
    pending: Sequence[Where],
    cases: Mapping[Where, Case],
    samples: Mapping[Where, Samples],
    heat: Mapping[Where, Samples],
    excluded: Mapping[Where, frozenset[int]],
    rules: Rules,
    only_default: bool,
) -> dict[Where, Verdict]:
    verdicts = {}
    for where in pending:
        out = frozenset(range(1, len(cases[where].candidates))) if only_default else excluded[where]
        if cases[where].recheck:
            verdicts[where] = LOADED if 1 not in out else NOT_LOADED
            continue
        verdicts[where] = decide(
            samples[where],
            min_gain_percent=rules.min_gain_percent,
            incumbent=cases[where].incumbent,
            excluded=out,
            heat=among(heat[where], cases[where].candidates),
        )
    return verdicts


def _checked(
    to_check: Sequence[Where],
    cases: Mapping[Where, Case],
    verdicts: Mapping[Where, Verdict],
    bench: Bench,
    rules: Rules,
) -> Checked:
    results: Checked = {}
    for where in to_check:
        case, here = cases[where], bench.layer(where[0])
        if here is None:
            continue
        combo = case.candidates[verdicts[where].index]
        result = numbers.check(case, combo, here, rules.limits, bench.note)
        suspect = (
            numbers.guilty(case, combo, here, rules.limits, bench.note)
            if result.wrong is not None and result.blame
            else None
        )
        results[where] = (result, suspect)
        free_memory()
    return results


def _excluded(case: Case, index: int, suspect: str | None, before: frozenset[int]) -> frozenset[int]:
    """The failed choice, and every other choice that holds the guilty tactic."""
    guilty = [entry for entry in case.candidates[index] if entry[0] == suspect]
    also = {i for i, combo in enumerate(case.candidates) if i and any(entry in guilty for entry in combo)}
    return before | also | {index}


def _failure(case: Case, index: int, suspect: str | None, result: Check) -> dict[str, Any]:
    entries = [e for e in case.candidates[index] if (suspect is None or e[0] == suspect) and e[2] != -1]
    keys = {op: (scope, key) for op, scope, key in case.stages}
    return {
        "rows": [
            {"op": op, "scope": keys[op][0], "key": keys[op][1], "runner": runner, "tactic": tactic}
            for op, runner, tactic in entries
        ],
        "tokens": case.tokens,
        "seen": result.wrong,
    }
