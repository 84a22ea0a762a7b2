"""``tunelaunch cache diff``: what changed between two generations, or between two roots."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunelaunch.cli import cells, places
from tunelaunch.cli.cache.names import Commands, command, find, kept, name_of, previous, ref_of, state
from tunelaunch.cli.output import print_columns, print_json, printable, say
from tunelaunch.errors import StoreError, UsageError
from tunelaunch.options import Own

if TYPE_CHECKING:
    from tunelaunch.store.diff import Choice, RowChange, TableDiff
    from tunelaunch.store.table import Table

EXAMPLE = """\
  tunelaunch cache diff                        the generation before, and the current one
  tunelaunch cache diff 3 4                    two generations of the only table
  tunelaunch cache diff nvidia-h200            what the last write of one table changed
  tunelaunch cache diff nvidia-h200@3          generation 3 of a table, and its current one
  tunelaunch cache diff ./old-cache /var/cache/tunelaunch    two roots, all their tables

gained and lost are by the microseconds that each row recorded when it was made, beyond the noise it recorded."""


def add_to(commands: Commands) -> None:
    """Add the command."""
    text = "Compare two states: choices gained (faster), lost (slower), changed, new and gone."
    made = command(commands, "diff", _diff, text, EXAMPLE)
    made.add_argument("before", nargs="?", metavar="A", help="TABLE@N, N or a root (default: the generation before)")
    made.add_argument("after", nargs="?", metavar="B", help="TABLE@N, N or a root (default: the current generation)")


def _diff(args: argparse.Namespace, own: Own) -> int:
    roots = [_is_path(given) for given in (args.before, args.after)]
    if any(roots) and not all(roots):
        raise UsageError("one of the two is a path: give two roots (cache diff DIR DIR), or two generations (3 4)")
    found = _roots(Path(args.before), Path(args.after)) if all(roots) else [_generations(args, own)]
    if args.format == "json":
        print_json({"tables": [{"table": name, **change.to_json()} for name, change in found]})
        return 0
    for name, change in found:
        print(printable(name))
        if change.changes:
            _print(change)
        print(change.summary())
    if not found:
        say("neither root holds a table")
    return 0


def _is_path(given: str | None) -> bool:
    if given is None or given.isdigit() or "@" in given:
        return False
    with suppress(OSError):  # a name that is too long for a path is none
        return given.startswith(("/", "./", "../", "~")) or Path(given).is_dir()
    return False


def _generations(args: argparse.Namespace, own: Own) -> tuple[str, TableDiff]:
    from tunelaunch.store.diff import diff

    first, second = ref_of(args.before), ref_of(args.after)
    before = find(args, own, first.table or second.table)
    after = find(args, own, second.table or first.table)
    if args.after is None and first.generation is None:
        number: int | None = previous(before)
        if number is None:
            raise StoreError(f"{name_of(before)} has no earlier generation to compare with; {kept(before)}")
    else:
        number = first.generation
    name = name_of(after) if before.path == after.path else f"{name_of(before)} -> {name_of(after)}"
    return name, diff(state(before, number), state(after, second.generation))


def _roots(before: Path, after: Path) -> list[tuple[str, TableDiff]]:
    from tunelaunch.store.diff import diff

    old, new = _tables(before), _tables(after)
    return [(name, diff(old.get(name), new.get(name))) for name in sorted(old.keys() | new.keys())]


def _tables(root: Path) -> dict[str, Table]:
    root = root.expanduser()
    if not root.is_dir():
        raise StoreError(f"{root} is no directory, so there is no table to compare")
    store = places.store_to_read(root)
    found = {}
    for info in store.tables():
        loaded = store.load(info.tid)
        for problem in loaded.problems:
            say(str(problem))
        if loaded.table is not None:
            found[name_of(info)] = loaded.table
    return found


def _print(change: TableDiff) -> None:
    head = ("WHAT", "OP", "TOKENS", "BEFORE", "AFTER", "US BEFORE", "US AFTER", "LESS TIME")
    print_columns([head, *(_line(row) for row in change.changes)])


def _line(row: RowChange) -> tuple[Any, ...]:
    return (
        row.kind,
        row.op or cells.NONE,
        cells.NONE if row.tokens is None else row.tokens,
        _choice(row.before, row.after),
        _choice(row.after, row.before),
        cells.number(row.before and row.before.us),
        cells.number(row.after and row.after.us),
        cells.percent(row.percent),
    )


def _choice(choice: Choice | None, other: Choice | None) -> str:
    if choice is None:
        return cells.NONE
    words = cells.tactic_words(choice.tactic)
    # The runner is worth its width only where it is what changed.
    return f"{choice.runner} {words}" if other is not None and other.runner != choice.runner else words
