"""From trials to rows: the fixed sequence of messages after a tuning pass, which every rank follows in lockstep.

    harvest  every rank says what it found; the leader plans the trials
    plan     the leader's trials reach every rank, which times every choice for a few rounds
    heat     every rank says its timings; the leader picks the finalists from their mean
    finals   the finalists reach every rank, which times them again, captured anew and on other inputs
    samples  every rank says those timings; the leader decides on their mean
    choice   the leader's choices reach every rank, which checks the numbers; repeated while a check fails

A rank that fails a step says so in the next message; the exchange then raises on every rank alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tunelaunch.ranks import trial
from tunelaunch.ranks.agree import Member, attempt
from tunelaunch.ranks.cases import Case, Found, Plan, plan
from tunelaunch.ranks.choose import choose
from tunelaunch.ranks.decide import Samples, finalists, mean_samples
from tunelaunch.ranks.outcome import Bench, Outcome, Rules, Where, device_lost, free_memory


def settle(
    member: Member,
    harvest: Callable[[], tuple[list[Found], int]],
    bench: Bench,
    triable: Mapping[str, str | None],
    rules: Rules,
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
    trials: Plan = member.tell("plan", planned, error)
    outcome.cases, outcome.untried = trials.cases, trials.untried
    heat = _sampled(member, "heat", trials.cases, bench, rules.effort.heat, 0, outcome)
    shorter, error = attempt(_finals, trials.cases, heat)
    cases: tuple[Case, ...] = member.tell("finals", shorter, error)
    final = _sampled(member, "samples", cases, bench, rules.effort.rounds, 1, outcome)
    outcome.cases = list({(c.owner, c.tokens): c for c in (*trials.cases, *cases)}.values())
    choose(member, cases, final, heat, bench, rules, outcome)
    return outcome


def _finals(cases: Sequence[Case], heat: Mapping[Where, Samples]) -> tuple[Case, ...]:
    """The cases with the choices that go on; a recheck goes on as it is, a case that could not be timed does not."""
    going = [case for case in cases if case.recheck or (case.owner, case.tokens) in heat]
    return tuple(
        case if case.recheck else replace(case, candidates=finalists(heat[case.owner, case.tokens], case.incumbent))
        for case in going
    )


def _sampled(
    member: Member,
    step: str,
    cases: Sequence[Case],
    bench: Bench,
    rounds: int,
    seed: int,
    outcome: Outcome,
) -> dict[Where, Samples]:
    """Timings of the cases, averaged over the ranks; a case that failed on one rank is lost on all."""
    timed, error = attempt(_timed, cases, bench, rounds, seed)
    by_rank = [message.payload for message in member.exchange(step, timed, error)]
    samples: dict[Where, Samples] = {}
    for where in timed or ():
        results = [rank[where] for rank in by_rank]
        if failed := next((r for r in results if isinstance(r, str)), None):
            outcome.lost[where] = failed
        else:
            samples[where] = mean_samples(results)
    return samples


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


def _timed(cases: Sequence[Case], bench: Bench, rounds: int, seed: int) -> dict[Where, Samples | str]:
    results: dict[Where, Samples | str] = {}
    for number, case in enumerate(cases, start=1):
        if case.recheck:
            continue
        bench.progress(f"trial {number} of {len(cases)}: {case.tokens} tokens, {len(case.candidates)} choices")
        here = bench.layer(case.owner)
        if here is None:
            results[case.owner, case.tokens] = f"{case.owner} was not run on this rank"
            continue
        value, error = attempt(trial.sample, case, here, rounds, seed, bench.note)
        results[case.owner, case.tokens] = value if error is None else _short(error)
        if error is not None and device_lost():
            bench.ruined()
            raise error
        free_memory()
    return results


def _short(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200] if text else ''}"
