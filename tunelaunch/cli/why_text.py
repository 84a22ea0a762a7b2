"""The answers of ``tunelaunch why`` for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tunelaunch.cli.output import print_columns, printable, say

_VERDICTS = {True: "hit", False: "miss", None: "unknown"}


def print_answers(result: Mapping[str, Any]) -> None:
    """Each answer: verdict, places, rows by op, and for a miss the nearest table field by field."""
    if result["source"] != "this host":
        _line(f"for {result['source']}")
    for number, answer in enumerate(result["answers"]):
        if number:
            print()
        _answer(answer)
    if result["retune"]:
        print()
        _line("--retune: nothing would be loaded; what is there must be beaten by what is tuned")
    for problem in result["problems"]:
        say(problem)


def _answer(answer: Mapping[str, Any]) -> None:
    _line(f"{answer['title']}: {_VERDICTS[answer['hit']]}")
    if answer["unknown"]:
        _line(f"  {answer['unknown']}")
    environment = answer["environment"]
    if answer["table"]:
        _line(f"  table {answer['table']}")
    elif environment:
        known = [
            n for n in environment["fields"] if n.startswith("flashinfer.") and n not in environment["indeterminate"]
        ]
        words = ", ".join(f"{name.partition('.')[2]} {_value(environment['fields'][name])}" for name in known)
        _line(f"  known without a GPU: {words or 'nothing'}")
    if answer["table"] and environment["indeterminate"]:
        unknown = ", ".join(environment["indeterminate"])
        _line(f"  unproven: {unknown} not known; rows are verified again at every start")
    _line("  looked in" if answer["table"] else "  would look in")
    _indented([_place(place, answer["table"] is not None) for place in answer["looked"]])
    for place in answer["looked"]:
        for problem in place["problems"]:
            _line(f"    {problem}")
    if answer["ops"]:
        _line("  rows by op")
        _indented([("OP", "ROWS", "TUNED", "DEFAULT", "SCOPES", "HIDDEN"), *map(_op, answer["ops"])])
    if answer["nearest"]:
        _nearest(answer["nearest"])
    elif answer["hit"] is False:
        _line("  there is no other table to compare with: the first start tunes and writes one")


def _place(place: Mapping[str, Any], judged: bool) -> tuple[str, ...]:
    if not place["asked"]:
        words = "not asked" if judged else ""
    elif place["rows"]:
        generation = f" (generation {place['generation']})" if place["generation"] else ""
        words = f"{place['rows']} rows{generation}"
    else:
        words = "a table without rows" if place["generation"] else "no table of this environment"
    return place["kind"], place["place"], words


def _op(op: Mapping[str, Any]) -> tuple[object, ...]:
    return op["op"], op["rows"], op["tuned"], op["default"], op["scopes"] or "-", op["hidden"]


def _nearest(near: Mapping[str, Any]) -> None:
    _line(f"  nearest: {near['table']}, {near['rows']} rows, in {near['place']}")
    rows: list[Sequence[object]] = [("FIELD", "SAVED", "CURRENT", "DECISIVE")]
    for item in near["differences"]:
        shown = [_value(item["saved"]), _value(item["current"])]
        rows.append((item["field"], *shown, "yes" if item["decisive"] else "no"))
    _indented(rows)
    decisive = sum(item["decisive"] for item in near["differences"])
    if decisive:
        _line(
            f"  its rows are not used: {decisive} decisive field{'s differ' if decisive > 1 else ' differs'}; "
            "a start tunes anew and keeps that table as it is"
        )


def _value(value: object) -> str:
    text = "unknown" if value in (None, "") else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _indented(rows: Sequence[Sequence[object]]) -> None:
    print_columns([("   ", *row) for row in rows])


def _line(text: str) -> None:
    print(printable(text))
