"""``tunelaunch cache verify``: read every file of every table, and say which are damaged."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tunelaunch.cli import places
from tunelaunch.cli.cache.look import info_json
from tunelaunch.cli.cache.names import Commands, command
from tunelaunch.cli.output import print_json, printable, say
from tunelaunch.options import Own

if TYPE_CHECKING:
    from tunelaunch.store.scan import TableInfo


def add_to(commands: Commands) -> None:
    """Add the command."""
    text = "Read every table with its history, quarantine and notes; exit 1 if a file is damaged. Nothing is moved."
    command(commands, "verify", _verify, text, "  tunelaunch cache verify && echo all good", table=True)


def _verify(args: argparse.Namespace, own: Own) -> int:
    tables = places.all_tables(places.root_of(args, own))
    chosen = [places.pick(tables, args.table)] if args.table else tables
    found: list[dict[str, Any]] = []
    for info in chosen:
        problems, files = _problems(info)
        found.append({**info_json(info), "files": files, "problems": problems})
    damaged = [item for item in found if item["problems"]]
    if args.format == "json":
        print_json({"tables": found, "damaged": len(damaged)})
        return 1 if damaged else 0
    for item in found:
        word = "damaged" if item["problems"] else "good"
        print(printable(f"{word}  {item['device']}/{item['environment']}  {item['files']} files"))
        for problem in item["problems"]:
            print(printable(f"  {problem}"))
    if not found:
        say("no table to verify")
    if damaged:
        say(
            "the next start leaves files of a newer schema as they are and sets other damaged ones aside; "
            "to put an earlier generation back then: tunelaunch cache rollback TABLE"
        )
    return 1 if damaged else 0


def _problems(info: TableInfo) -> tuple[list[str], int]:
    """What is wrong with the files of a table, and how many were read."""
    from tunelaunch.store.files import read_json_any
    from tunelaunch.store.history import load
    from tunelaunch.store.layout import Layout

    root = places.root_of_table(info)
    store = places.store_to_read(root)
    paths = store.paths(info.tid)
    found = list(store.load(info.tid).problems) or ([info.problem] if info.problem is not None else [])
    kept = store.history(info.tid)
    for number in kept:
        found += load(Layout(root), info.tid, number).problems
    store.read_quarantine(info.tid)
    store.read_wanted(info.tid)
    _, problem = read_json_any(paths.environment, root)
    found += [*store.problems, *([problem] if problem is not None else [])]
    beside = [path for path in (paths.quarantine, paths.wanted, paths.environment) if path.is_file()]
    return [str(problem) for problem in dict.fromkeys(found)], 1 + len(kept) + len(beside)
