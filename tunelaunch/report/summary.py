"""The report of a start in a dozen lines.

Guarantees: at most :data:`MAX_LINES` lines; what does not fit is counted, not dropped in silence; missing parts of a
report are left out or called unknown and never raise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tunelaunch.device.facts import DeviceFacts
from tunelaunch.report import lenient
from tunelaunch.report.retune import retune_lines

MAX_LINES = 12
_WORDS = ("loaded", "tuned", "default", "failed")


def summary_lines(report: Mapping[str, Any]) -> list[str]:
    """``report`` (see ``tunelaunch.report.model``) as lines for the log and for ``tunelaunch report``."""
    nothing = lenient.text(report.get("nothing"))
    if nothing is not None and not lenient.objects(report.get("ops")):
        head = [f"this is plain SGLang, no tuning pass was run: {_one_line(nothing)}"]
    else:
        head = [_device(report), _rows(report), _table(report)]
    head += [*retune_lines(report), *_sources(report)]
    warnings = _ranks(report)
    said = [f"fallback: {_one_line(text)}" for text in lenient.texts(report.get("fallbacks"))]
    said += [f"problem: {_one_line(text)}" for text in lenient.texts(report.get("problems"))]
    ops = [_op(op) for op in lenient.objects(report.get("ops"))]
    room = MAX_LINES - len(head) - len(warnings)
    # Every fallback is owed a line before any op is: what did not happen matters more than what did.
    said = _fit(said, max(1, room - min(len(ops), 1)), "more fallbacks and problems")
    ops = _fit(ops, max(0, room - len(said)), "more ops")
    return [*head, *warnings, *said, *ops]


def _device(report: Mapping[str, Any]) -> str:
    data = lenient.mapping(report.get("device"))
    facts = DeviceFacts.from_json(data)
    sms = f", {facts.sm_count} SMs" if facts.sm_count else ""
    environment = lenient.text(lenient.mapping(report.get("environment")).get("id")) or "unknown"
    unproven = ""
    if report.get("unproven"):
        names = lenient.texts(lenient.mapping(report.get("environment")).get("indeterminate"))
        unproven = f" (unproven: {_some(names)} unknown)" if names else " (unproven)"
    device = f"{facts.title}, {facts.family}{sms}" if data else "device unknown"
    others = lenient.texts(report.get("other_devices"))
    also = f" (other ranks: {', '.join(others)})" if others else ""
    return f"{device}{also}; environment {environment}{unproven}"


def _rows(report: Mapping[str, Any]) -> str:
    totals = lenient.mapping(report.get("totals"))
    counts = ", ".join(f"{lenient.count(totals.get(word))} {word}" for word in _WORDS)
    missed = lenient.count(totals.get("missed"))
    missed_words = f", {missed} missed" if missed else ""
    seconds = lenient.number(report.get("seconds")) or 0.0
    return f"rows: {counts}{missed_words}; {lenient.count(report.get('profiles'))} profiles run, {seconds:.1f} s tuning"


def _table(report: Mapping[str, Any]) -> str:
    table = lenient.mapping(report.get("table"))
    path = lenient.text(table.get("path"))
    if path is None:
        return "table: none"
    generation = lenient.whole(table.get("generation"))
    published = lenient.count(table.get("published"))
    number = "no generation" if generation is None else f"generation {generation}"
    return f"table: {path}, {number}" + (f", {published} rows published" if published else ", nothing new to publish")


def _sources(report: Mapping[str, Any]) -> list[str]:
    """Seeds and remote with the rows in use; a source that gives none is named as well."""
    table = lenient.mapping(report.get("table"))
    parts = []
    for kind, word in (("seeds", "seed"), ("remote", "remote")):
        used = lenient.mapping(table.get(kind))
        parts += [f"{word} {_one_line(str(name))}: {lenient.count(number)} rows used" for name, number in used.items()]
    return ["; ".join(parts)] if parts else []


def _ranks(report: Mapping[str, Any]) -> list[str]:
    lines = []
    missing = _numbers(report.get("missing_ranks"))
    if missing:
        expected = lenient.count(report.get("expected_ranks"))
        lines.append(f"ranks without a receipt: {_some(missing)} (of {expected}); nothing is known of them")
    states = lenient.mapping(report.get("states"))
    odd = [f"{state}: {_some(_numbers(ranks))}" for state, ranks in states.items() if state != "active"]
    if odd:
        lines.append(f"ranks that were not active - {'; '.join(odd)}")
    unranked = lenient.count(report.get("unranked"))
    if unranked:
        lines.append(f"{unranked} process(es) of SGLang never came to tuning")
    unequal = _numbers(report.get("unequal_ranks"))
    if unequal:
        lines.append(f"ranks whose rows differ from the leader's: {_some(unequal)}; please report it")
    return lines


def _op(op: Mapping[str, Any]) -> str:
    counts = "/".join(str(lenient.count(op.get(word))) for word in _WORDS)
    missed = lenient.count(op.get("missed"))
    gain, recorded = lenient.number(op.get("gain_percent")), lenient.number(op.get("recorded_gain_percent"))
    return (
        f"{lenient.text(op.get('op')) or 'unknown op'}: {counts} {'/'.join(_WORDS)}"
        + (f", {missed} missed" if missed else "")
        + (f", largest gain {gain:.1f} %" if gain is not None else "")
        + (f", largest gain {recorded:.1f} % (recorded when tuned)" if gain is None and recorded is not None else "")
    )


def _one_line(text: str) -> str:
    # A fallback is one line of the log, whatever an exception's text looks like.
    return " ".join(text.split())


def _numbers(value: object) -> list[str]:
    return [str(n) for n in value if isinstance(n, int)] if isinstance(value, (list, tuple)) else []


def _some(words: Sequence[str], at_most: int = 8) -> str:
    shown = ", ".join(words[:at_most])
    return shown if len(words) <= at_most else f"{shown} and {len(words) - at_most} more"


def _fit(lines: list[str], room: int, rest: str) -> list[str]:
    if len(lines) <= room:
        return lines
    kept = lines[: max(0, room - 1)]
    return [*kept, f"... and {len(lines) - len(kept)} {rest} (tunelaunch report --format json)"] if room > 0 else []
