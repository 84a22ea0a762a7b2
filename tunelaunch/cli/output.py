"""How commands print: aligned columns for people, one JSON value for programs."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from typing import Any


def print_json(value: Any) -> None:
    """One indented JSON value on stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=True))


def print_columns(rows: Sequence[Sequence[object]]) -> None:
    """Rows as columns; cells that hold numbers go to the right."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))] if cells else []
    right = [len(cells) > 1 and _numeric([row[i] for row in cells[1:]]) for i in range(len(widths))]
    for row in cells:
        line = "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(row, widths, right, strict=True)
        )
        print(line.rstrip())


def _numeric(column: Sequence[str]) -> bool:
    """Whether a column holds numbers (with a sign, a percent sign or a unit of size) and dashes for none."""
    found = [cell for cell in column if cell != "-"]
    return bool(found) and all(re.fullmatch(r"[+-]?\d+(\.\d+)?[%KMGT]?", cell) for cell in found)


def say(text: str) -> None:
    """A line beside the result, on stderr."""
    print(f"tunelaunch: {printable(text)}", file=sys.stderr)


def printable(text: str) -> str:
    """``text`` on one line; what a terminal could take for a command (names on disk may hold anything) is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def add_common(parser: argparse.ArgumentParser, *, formats: bool = True) -> None:
    """The options that every command about the store has."""
    parser.add_argument("--tunelaunch-cache", metavar="DIR", help="root of the tables (TUNELAUNCH_CACHE_DIR)")
    if formats:
        parser.add_argument("--format", choices=("text", "json"), default="text", help="for people, or for programs")


def tell(args: argparse.Namespace, result: dict[str, Any], text: str) -> None:
    """The result of a command: ``text`` for people, ``result`` for programs."""
    if args.format == "json":
        print_json(result)
    else:
        print(printable(text))
