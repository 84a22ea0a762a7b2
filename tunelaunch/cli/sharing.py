"""What ``export``, ``import``, ``push`` and ``pull`` have in common: choosing tables, merging them in, saying what happened."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunelaunch.cli import places
from tunelaunch.cli.output import print_json, printable, say
from tunelaunch.errors import ShareError, UsageError
from tunelaunch.options import Own

if TYPE_CHECKING:
    from tunelaunch.share.document import SharedTable
    from tunelaunch.share.importing import TablePlan


def roots_of(args: argparse.Namespace, own: Own) -> list[Path]:
    """The root of the tables, then the place where they are written when it cannot be."""
    root, second = places.root_of(args, own), places.overlay()
    return [root, second] if second.is_dir() and second != root else [root]


def add_selection(parser: argparse.ArgumentParser, every: str | None) -> None:
    """Options that choose tables; ``every`` is the help of ``--all``."""
    parser.add_argument("--device", metavar="D", help="only tables of this device (or the beginning of its name)")
    parser.add_argument("--environment", metavar="ID", help="only this environment (or the beginning of its id)")
    if every:
        parser.add_argument("--all", action="store_true", help=every)


def add_key(parser: argparse.ArgumentParser) -> None:
    """The option that names the key."""
    parser.add_argument("--key-file", metavar="FILE", help="key that signs and checks (TUNELAUNCH_KEY_FILE)")


def chosen_tables(args: argparse.Namespace, own: Own) -> list[SharedTable]:
    """The tables that the selection means; one without ``--all``. Raises :class:`ShareError`."""
    from tunelaunch.share import stock

    roots = roots_of(args, own)
    found = list(
        {tid: (root, tid) for root, tid in reversed(stock.select(roots, args.device, args.environment))}.values()
    )
    found = sorted(found, key=lambda item: str(item[1]))
    if not found:
        raise ShareError(f"no table matches under {roots[0]}; tunelaunch cache ls shows what is there")
    if len(found) > 1 and not args.all:
        listed = ", ".join(str(tid) for _, tid in found)
        raise UsageError(f"{len(found)} tables match: {listed}. Choose with --device and --environment, or give --all")
    return [stock.take(root, tid) for root, tid in found]


def put(args: argparse.Namespace, own: Own, tables: Sequence[SharedTable], origin: str) -> tuple[TablePlan, ...]:
    """Decide, and unless it is a dry run do it. Raises :class:`ShareError`, the store as it was."""
    from tunelaunch.share import importing
    from tunelaunch.store import Store

    root = places.root_of(args, own)
    # The decision is made on a store that only reads: nothing is made or moved before everything was checked.
    plans = importing.plan(Store.open(root, readonly=True), tables)
    if not args.dry_run:
        importing.carry_out(Store.open(root), plans, origin)
    return plans


def show(args: argparse.Namespace, plans: Sequence[TablePlan], notes: Sequence[str], detail: dict[str, Any]) -> None:
    """Print what was (or would be) done."""
    from tunelaunch.share.importing import report_lines

    if args.format == "json":
        tables = [step.to_json() for step in plans]
        print_json({**detail, "done": not args.dry_run, "tables": tables, "notes": list(notes)})
        return
    for line in report_lines(plans, done=not args.dry_run):
        print(printable(line) if not line.startswith(" ") else f"  {printable(line.strip())}")
    for note in notes:
        say(note)


def environment_notes(tables: Sequence[SharedTable], roots: Sequence[Any], expect: str | None) -> list[str]:
    """Which tables this host would not use, with the fields that differ.

    With ``expect`` (an environment id) such a table is refused: raises :class:`ShareError`.
    """
    from tunelaunch.share import stock

    notes = []
    for table in tables:
        if expect and table.tid.environment.startswith(expect):
            continue
        known = stock.known_environments(roots, table.tid.device, own=not expect)
        fields = stock.apart(table, stock.here(known, table.tid.device, expect))
        if expect:
            why = fields or f"environment {expect} of this device is not known here, so the fields cannot be named"
            raise ShareError(f"{table.tid} is not of environment {expect} ({why}); nothing was imported")
        if fields:
            notes.append(
                f"this host's environment differs from {table.tid} ({fields}): its rows lie in a table of their own and "
                "are not used here until the fields agree"
            )
    return notes
