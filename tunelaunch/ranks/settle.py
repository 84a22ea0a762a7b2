"""From trials to rows: the fixed sequence of messages after a tuning pass, which every rank follows in lockstep.

    harvest  every rank says what it found; the leader plans the trials
    plan     the leader's trials reach every rank, which times them
    samples  every rank says its timings; the leader decides on their mean
    choice   the leader's choices reach every rank, which checks the numbers; repeated while a check fails
    settled  the leader's rows reach every rank

A rank that fails a step says so in the next message; the exchange then raises on every rank alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tunelaunch.ranks import trial
from tunelaunch.ranks.agree import Member, attempt
from tunelaunch.ranks.cases import Found, Plan, plan
from tunelaunch.ranks.choose import choose
from tunelaunch.ranks.decide import Samples, mean_samples
from tunelaunch.ranks.outcome import Outcome, Rules, Trials, free_memory


def settle(
    member: Member,
    harvest: Callable[[], tuple[list[Found], int]],
    layer: Trials,
    triable: Mapping[str, str | None],
    rules: Rules,
    progress: Callable[[str], None] = lambda line: None,
    broken: BaseException | None = None,
) -> Outcome:
    """Follow the sequence. Raises :class:`~tunelaunch.errors.AgreementError` on all ranks when one of them failed."""
    mine, error = attempt(harvest)
    said = member.exchange("harvest", mine, broken or error)
    found = _merged([message.payload[0] for message in said])
    outcome = Outcome(found=found, profiles=[message.payload[1] for message in said])
    if all(row.state == "loaded" and row.stage not in rules.recheck for row in found):
        return outcome

    planned, error = attempt(_planned, member, found, triable, rules)
    trials: Plan = member.exchange("plan", planned, error)[0].payload
    outcome.cases, outcome.untried = trials.cases, trials.untried
    timed, error = attempt(_timed, trials, layer, rules, progress)
    by_rank = [message.payload for message in member.exchange("samples", timed, error)]
    samples: dict[tuple[str, int], Samples] = {}
    for case in trials.cases:
        where = (case.owner, case.tokens)
        if case.recheck:
            continue
        results = [rank[where] for rank in by_rank]
        if failed := next((r for r in results if isinstance(r, str)), None):
            outcome.lost[where] = failed
        else:
            samples[where] = mean_samples(results)
    choose(member, trials.cases, samples, layer, rules, outcome, progress)
    return outcome


def _merged(ranks: Sequence[list[Found]]) -> list[Found]:
    """The leader's rows, plus rows that only other ranks have because their keys carry the rank."""
    merged = {row.stage: row for row in ranks[0]}
    for number, rank in enumerate(ranks[1:], start=1):
        for row in rank:
            if row.stage not in merged and row.carries_ranks:
                merged[row.stage] = replace(row, rank=number)
            elif (mine := merged.get(row.stage)) is not None and mine.state != "failed" and row.state == "failed":
                merged[row.stage] = row
    return list(merged.values())


def _planned(member: Member, found: list[Found], triable: Mapping[str, str | None], rules: Rules) -> Plan | None:
    if not member.leader:
        return None
    return plan(
        found,
        effort=rules.effort,
        triable=triable,
        incumbents=rules.incumbents,
        hidden=rules.hidden,
        recheck=rules.recheck.__contains__,
    )


def _timed(
    trials: Plan, layer: Trials, rules: Rules, progress: Callable[[str], None]
) -> dict[tuple[str, int], Samples | str]:
    results: dict[tuple[str, int], Samples | str] = {}
    for number, case in enumerate(trials.cases, start=1):
        if case.recheck:
            continue
        progress(f"trial {number} of {len(trials.cases)}: {case.tokens} tokens, {len(case.candidates)} choices")
        here = layer(case.owner)
        if here is None:
            results[case.owner, case.tokens] = f"{case.owner} was not run on this rank"
            continue
        value, error = attempt(trial.sample, case, here, rules.effort.rounds)
        results[case.owner, case.tokens] = value if error is None else _short(error)
        free_memory()
    return results


def _short(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200] if text else ''}"
