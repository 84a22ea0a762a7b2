"""The long part of ``tunelaunch report``: environment, rows of each op, what the summary had no room for.

Guarantee: absent or malformed parts of a report are dashes or nothing, and never raise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tunelaunch.cli import cells
from tunelaunch.cli.output import print_columns, printable
from tunelaunch.report import lenient

Report = Mapping[str, Any]


def print_details(report: Report, summary: Sequence[str]) -> None:
    """Print what ``summary`` does not say."""
    _section("environment", [f"{name} = {value}" for name, value in _fields(report)])
    _section("passes", [_pass(part) for part in lenient.objects(report.get("passes"))])
    for op in lenient.objects(report.get("ops")):
        _print_op(op)
    said = [f"fallback: {text}" for text in _lines(report, "fallbacks")]
    said += [f"problem: {text}" for text in _lines(report, "problems")]
    _section("more fallbacks and problems", [line for line in said if line not in summary])
    ranks = ", ".join(map(str, lenient.mapping(report.get("tracebacks"))))
    if ranks:
        launch = lenient.text(report.get("launch")) or ""
        print()
        print(printable(f"tracebacks of rank {ranks}: tunelaunch report {launch} --format json"))


def _section(title: str, lines: Sequence[str]) -> None:
    if lines:
        print(f"\n{title}")
        for line in lines:
            print(printable(f"  {line}"))


def _fields(report: Report) -> list[tuple[str, Any]]:
    return sorted(lenient.mapping(lenient.mapping(report.get("environment")).get("fields")).items())


def _pass(part: Report) -> str:
    name = lenient.text(part.get("name")) or "unknown"
    seconds = lenient.number(part.get("seconds")) or 0.0
    return f"{name}: {seconds:.1f} s, {lenient.count(part.get('profiles'))} profiles run"


def _lines(report: Report, name: str) -> list[str]:
    return [" ".join(text.split()) for text in lenient.texts(report.get(name))]


def _print_op(op: Report) -> None:
    rows = lenient.objects(op.get("rows"))
    if not rows:
        return
    print(f"\n{printable(lenient.text(op.get('op')) or 'unknown op')}")
    retuned = any(isinstance(row.get("before"), Mapping) for row in rows)
    head = ["TOKENS", "STATE", "TACTIC", "US", "DEFAULT US", "GAIN", "MEASURED"]
    lines = [[*head, *(["BEFORE", "US BEFORE"] if retuned else []), "WHY"]]
    rows.sort(key=lambda row: (str(row.get("scope") or ""), lenient.count(row.get("tokens")), str(row.get("key"))))
    for row in rows:
        tokens = lenient.whole(row.get("tokens"))
        line = [
            cells.NONE if tokens is None else str(tokens),
            cells.text(row.get("state")),
            cells.tactic_words(row.get("tactic")),
            cells.number(row.get("us")),
            cells.number(row.get("default_us")),
            cells.percent(row.get("gain_percent")),
            _measured(row),
        ]
        before = lenient.mapping(row.get("before"))
        if retuned:
            line += [
                cells.tactic_words(before.get("tactic")),
                cells.number(lenient.mapping(before.get("us")).get("winner")),
            ]
        lines.append([*line, cells.text(row.get("why"))])
    print_columns(lines)


def _measured(row: Report) -> str:
    """A figure of an earlier start is told apart from one of this start."""
    if lenient.number(row.get("us")) is None and lenient.number(row.get("gain_percent")) is None:
        return cells.NONE
    recorded = lenient.text(row.get("recorded"))
    return recorded or ("earlier" if row.get("state") == "loaded" else "now")
