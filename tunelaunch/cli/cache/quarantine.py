"""``tunelaunch cache unquarantine``: let tactics that failed verification be tried again."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from tunelaunch.cli import cells, places
from tunelaunch.cli.cache.names import Commands, command, find, name_of
from tunelaunch.cli.output import print_json, printable, say
from tunelaunch.errors import StoreError, UsageError
from tunelaunch.options import Own

EXAMPLE = """\
  tunelaunch cache show                                    which are quarantined, and why
  tunelaunch cache unquarantine --op gemm1 --tactic 7      one tactic of one op
  tunelaunch cache unquarantine nvidia-h200 --all

The next start that profiles these shapes verifies the tactic again; --retune makes the next start do that."""

Entry = Mapping[str, Any]


def add_to(commands: Commands) -> None:
    """Add the command."""
    text = "Lift the quarantine of tactics, so that the next tuning verifies them again."
    made = command(commands, "unquarantine", _unquarantine, text, EXAMPLE, table=True, dry_run=True)
    made.add_argument("--op", help="only of this op; the part after the last :: is enough")
    made.add_argument("--tactic", type=cells.tactic_from, metavar="T", help="only this tactic, as cache show prints it")
    made.add_argument("--all", action="store_true", help="every quarantined tactic of the table")


def _unquarantine(args: argparse.Namespace, own: Own) -> int:
    from tunelaunch.store.store import Store

    if args.all == (args.op is not None or args.tactic is not None):
        raise UsageError(
            "say which: --op OP, --tactic T or both; or --all, and neither (tunelaunch cache show lists them)"
        )
    info = find(args, own, args.table)
    root, name = places.root_of_table(info), name_of(info)
    chosen = _chooser(args.op, args.tactic)
    reader = places.store_to_read(root)
    every = reader.read_quarantine(info.tid)
    for problem in reader.problems:
        say(str(problem))
    entries = [entry for entry in every if chosen(entry)]
    if not entries:
        raise StoreError(
            f"{name} has no such quarantined tactic (it has {len(every)}); run: tunelaunch cache show {name}"
        )
    if not args.dry_run:
        store = Store.open(root)
        if store.lift_quarantine(info.tid, chosen) == 0:
            raise StoreError("; ".join(map(str, store.problems)) or f"the quarantine of {name} is empty by now")
    if args.format == "json":
        print_json({"table": name, "entries": [dict(entry) for entry in entries], "done": not args.dry_run})
        return 0
    for entry in entries:
        words = f"{cells.text(entry.get('op') or entry.get('key'))} tactic {cells.tactic_words(entry.get('tactic'))}"
        print(printable(f"{'would lift' if args.dry_run else 'lifted'}  {words}: {cells.text(entry.get('why'))}"))
    return 0


def _chooser(op: str | None, tactic: Any) -> Callable[[Entry], bool]:
    from tunelaunch.store.jsontext import encode

    def chosen(entry: Entry) -> bool:
        # Compared as written: true is not 1 in a tactic.
        return (op is None or _is_of(entry, op)) and (tactic is None or encode(entry.get("tactic")) == encode(tactic))

    return chosen


def _is_of(entry: Entry, op: str) -> bool:
    name = entry.get("op")
    if not isinstance(name, str):
        # An entry that was made without a name has the op in FlashInfer's key.
        return f"{op}'" in str(entry.get("key", "")).partition(",")[0]
    return name == op or name.rpartition("::")[2] == op
