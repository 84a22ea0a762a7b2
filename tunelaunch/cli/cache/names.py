"""How a command line names a table and a generation of it, and how that is found.

``N`` is a generation of the only table, ``TABLE@N`` of a table, ``TABLE`` a table's current state.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tunelaunch.cli import places
from tunelaunch.cli.output import add_common, say
from tunelaunch.errors import StoreError, UsageError
from tunelaunch.options import Own

if TYPE_CHECKING:
    from tunelaunch.store.scan import TableInfo
    from tunelaunch.store.table import Table

TABLE_HELP = "DEVICE/ENVIRONMENT or the beginning of either; needed only if there are several"
_ENVIRONMENT_DIGITS = 12
Commands = Any
"""argparse's own type for sub-commands is private."""


@dataclass(frozen=True)
class Ref:
    """What was typed: a table's name, a generation, or both."""

    table: str | None = None
    generation: int | None = None


def ref_of(given: str | None) -> Ref:
    """Take ``TABLE@N``, ``TABLE`` or ``N`` apart; raises :class:`UsageError` for a generation that is no number."""
    if not given:
        return Ref()
    table, at, number = given.rpartition("@")
    if at:
        if not number.isascii() or not number.isdigit():
            raise UsageError(f"{given!r}: after the @ comes the number of a generation, such as {table}@3")
        return Ref(table or None, int(number[:18]))
    # An environment id can be all digits, but it has twelve of them.
    if given.isascii() and given.isdigit() and len(given) < _ENVIRONMENT_DIGITS:
        return Ref(None, int(given))
    return Ref(given)


def command(
    commands: Commands,
    name: str,
    action: object,
    text: str,
    example: str,
    *,
    table: bool = False,
    dry_run: bool = False,
) -> argparse.ArgumentParser:
    """Add a command whose help ends in an example."""
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=text,
        epilog=f"example\n{example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_common(made)
    made.set_defaults(action=action)
    if table:
        made.add_argument("table", nargs="?", metavar="TABLE", help=TABLE_HELP)
    if dry_run:
        made.add_argument("--dry-run", action="store_true", help="say what would be done, change nothing")
    return made


def find(args: argparse.Namespace, own: Own, name: str | None) -> TableInfo:
    """The one table that ``name`` means; raises :class:`StoreError` otherwise."""
    return places.pick(places.all_tables(places.root_of(args, own)), name)


def name_of(info: TableInfo) -> str:
    """``device/environment``."""
    return f"{info.device}/{info.environment}"


def state(info: TableInfo, generation: int | None) -> Table:
    """The table as it was in ``generation``, or as it is; raises :class:`StoreError` with what is kept instead."""
    store = places.store_to_read(places.root_of_table(info))
    loaded = store.load(info.tid) if generation is None else store.generation(info.tid, generation)
    for problem in loaded.problems:
        say(str(problem))
    if loaded.table is not None:
        return loaded.table
    if generation is None:
        raise StoreError(f"{info.path} holds no table that can be used; run: tunelaunch cache verify")
    what = "is damaged" if loaded.problems else "is not kept"
    raise StoreError(f"generation {generation} of {name_of(info)} {what}; {kept(info)}")


def kept(info: TableInfo) -> str:
    """A line that says which generations there are."""
    earlier = places.store_to_read(places.root_of_table(info)).history(info.tid)
    return f"current: {info.generation}, kept: {', '.join(map(str, earlier)) or 'none'}"


def previous(info: TableInfo) -> int | None:
    """The generation that the current one was made from, as a rollback without a number takes it."""
    store = places.store_to_read(places.root_of_table(info))
    earlier = store.history(info.tid)
    table = store.load(info.tid).table
    after = table.written.get("after") if table else None
    if type(after) is int and after in earlier:
        return after
    return max((number for number in earlier if table is None or number < table.generation), default=None)
