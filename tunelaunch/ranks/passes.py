"""One tuning pass of SGLang with tunelaunch around it: feed, watch, settle, install, publish.

The pass itself is the host's. Whatever goes wrong here, on this rank or another, it runs; and where the ranks cannot
agree on a result, every rank forgets what the pass tuned and serves those rows at default, so that no two ranks differ.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tunelaunch.errors import AgreementError
from tunelaunch.hosts import flashinfer as fi
from tunelaunch.hosts import sglang as host
from tunelaunch.hosts.layers import Capture, capturing, on_forward_stream
from tunelaunch.hosts.watch import Watch, watching
from tunelaunch.ranks.agree import attempt
from tunelaunch.ranks.cases import EFFORTS
from tunelaunch.ranks.feed import Feeder
from tunelaunch.ranks.harvest import harvest
from tunelaunch.ranks.journal import Journal
from tunelaunch.ranks.judging import conditions, quarantine, rules_of, triable_layers
from tunelaunch.ranks.outcome import Bench, Outcome, Rules
from tunelaunch.ranks.passreport import describe
from tunelaunch.ranks.rows import Settled, rows_of
from tunelaunch.ranks.session import Given, Session
from tunelaunch.ranks.settle import settle
from tunelaunch.store.hidden import hides

log = logging.getLogger("tunelaunch")


@dataclass
class Pass:
    """A pass that is under way on this rank."""

    name: str
    given: Given
    feeder: Feeder
    entry: Path
    watch: Watch
    journal: Journal
    started: float
    capture: Capture = field(default_factory=Capture)
    host_seconds: float = 0.0
    broken: BaseException | None = None


@contextlib.contextmanager
def tuning_pass(
    session: Session, original: Callable[..., Any], model_runner: Any, kwargs: Mapping[str, Any]
) -> Iterator[None]:
    """SGLang's ``flashinfer_autotune_context``, with ours around it when the group agrees to it."""
    current = _begin(session, model_runner)
    if current is None:
        session.receipt()
        with original(model_runner, **kwargs):
            yield
        return
    try:
        with original(model_runner, **kwargs), _observed(current, model_runner):
            yield
    finally:
        session.redirect = None
        current.host_seconds = time.monotonic() - current.started
    try:
        _finish(session, current, model_runner)
    except Exception as bug:
        session.bug(bug, f"settling the {current.name} pass")
    current.journal.end()
    session.receipt()


def _begin(session: Session, model_runner: Any) -> Pass | None:
    """Meet, read, feed. ``None``: this pass is plain SGLang's, on every rank of the group alike."""
    try:
        reason = session.meet()
    except Exception as bug:
        session.aside = "this rank could not meet its group"
        session.bug(bug, "meeting the group")
        return None
    if reason is not None:
        session.fall_back(f"standing aside, as plain SGLang: {reason}")
        return None
    given, error = attempt(session.read)
    try:
        told = session.member.tell("rows", given.packed() if given is not None else None, error)
        heard = given if given is not None and session.member.leader else Given.unpacked(told)
        current, error = attempt(_opened, session, heard, model_runner)
        session.member.exchange("ready", None, error)
    except Exception as bug:
        session.bug(bug if isinstance(bug, AgreementError) else error or bug, "before tuning")
        return None
    session.state, session.redirect = "active", current.entry
    return current


def _opened(session: Session, heard: Given, model_runner: Any) -> Pass:
    """All that this rank needs for the pass, made before the ranks say that they are ready."""
    feeder, journal = session.take(heard), session.journal(heard)
    current = Pass(
        name=host.pass_name(model_runner),
        given=heard,
        feeder=feeder,
        entry=feeder.entry_file(),
        watch=Watch(
            cap=host.token_cap(model_runner),
            feed=feeder.activate,
            owner=lambda: current.capture.owner(),  # noqa: PLW0108 - the capture is replaced when the pass begins
            on_bug=lambda bug: _broke(session, current, bug),
            agree=session.member.all_well,
            hides=partial(hides, heard.hidden),
            before=lambda row: journal.begin([row]),
        ),
        journal=journal,
        started=time.monotonic(),
    )
    return current


def _broke(session: Session, current: Pass, bug: BaseException) -> None:
    session.bug(bug, "watching the autotuner")
    current.broken = current.broken or bug


@contextlib.contextmanager
def _observed(current: Pass, model_runner: Any) -> Iterator[None]:
    with capturing(model_runner) as current.capture, watching(current.watch):
        yield


def _finish(session: Session, current: Pass, model_runner: Any) -> None:
    progress = _Progress(session.member.leader)
    before, _ = attempt(session.conditions)
    prepared, failed_early = attempt(
        lambda: (rules_of(session, current.given), triable_layers(current.capture.layers, session, model_runner))
    )
    rules, triable = prepared or (Rules(EFFORTS["normal"], session.contract.min_gain_percent, verify=False), {})
    with on_forward_stream(model_runner):
        try:
            outcome = settle(
                session.member,
                lambda: (
                    harvest(current.watch, current.capture.layers, current.feeder.directory),
                    current.watch.profiles_run,
                ),
                Bench(current.capture.layers.get, current.journal.choice, current.journal.freeze, progress.say),
                triable,
                rules,
                current.broken or failed_early,
            )
        except Exception as failed:
            session.bug(failed, f"the {current.name} pass could not be settled, so that its new rows run at default:")
            outcome = Outcome()
        after, _ = attempt(session.conditions)
        more = conditions(before or {}, after or {})
        settled, error = attempt(
            lambda: rows_of(outcome, current.feeder.find, rules, session.stamp() | more, session.member.world)
        )
        settled = _install(session, current, outcome, settled, error)
    for row in outcome.found:
        if row.tokens is not None:
            session.largest[row.op] = max(session.largest.get(row.op, 0), row.tokens)
    _, error = attempt(lambda: session.publish(settled.store, quarantine(outcome, session)))
    if error is not None:
        session.bug(error, "writing the table")
    session.passes.append(
        describe(current.name, outcome, settled, _seconds(current), current.watch.profiles_run, rules)
    )
    progress.done(current.name, settled)


def _install(
    session: Session, current: Pass, outcome: Outcome, settled: Settled | None, error: BaseException | None
) -> Settled:
    """Give FlashInfer the settled rows on every rank, or, where one rank cannot, nothing on any: default everywhere."""
    if settled is not None:
        if not outcome.found:  # nothing was settled: all that was handed over, since calls seen here may differ by rank
            settled.install |= {(r.op, r.scope, r.key): r for r in current.given.rows}
        session.settled |= settled.install
        _, error = attempt(current.feeder.install, session.settled.values())
    try:
        session.member.exchange("installed", None, error)
    except Exception as failed:
        session.bug(error or failed, f"rows of the {current.name} pass could not be installed; all ops run at default:")
        session.settled.clear()
        fi.forget()
        return Settled()
    return settled or Settled()


def _seconds(current: Pass) -> dict[str, float]:
    total = time.monotonic() - current.started
    return {"pass": round(current.host_seconds, 3), "settling": round(total - current.host_seconds, 3)}


class _Progress:
    """A line every few seconds, from the leader only."""

    def __init__(self, leader: bool) -> None:
        self.leader, self.last = leader, time.monotonic()

    def say(self, line: str) -> None:
        now = time.monotonic()
        if self.leader and now - self.last >= 5.0:
            self.last = now
            log.info("tunelaunch: %s", line)

    def done(self, name: str, settled: Settled) -> None:
        if self.leader:
            counts: dict[str, int] = {}
            for state in settled.states.values():
                counts[state] = counts.get(state, 0) + 1
            text = ", ".join(f"{number} {state}" for state, number in sorted(counts.items())) or "nothing to tune"
            log.info("tunelaunch: %s pass settled: %s", name, text)
