"""``tunelaunch push URL``: rows of this host that a remote does not have yet, added to it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from tunelaunch.cli.output import add_common, print_json, printable, say
from tunelaunch.cli.sharing import add_key, add_selection, chosen_tables
from tunelaunch.options import Own


def run(argv: Sequence[str], own: Own) -> int:
    """Push; raises :class:`ShareError` when the remote cannot be written."""
    from tunelaunch.share.places import open_place
    from tunelaunch.share.remote import news, read_remote, write_remote
    from tunelaunch.share.signing import trust_from

    args = _parser().parse_args(list(argv))
    trust = trust_from(key_file=args.key_file)
    place = open_place(args.url)
    args.all = True
    pushed: list[dict[str, Any]] = []
    for table in chosen_tables(args, own):
        there = read_remote(place, table.tid, trust)
        for problem in there.problems:
            say(problem)
        fresh = news(table, there.table)
        rows = len(fresh.rows) if fresh else 0
        name = write_remote(place, fresh, trust) if fresh and not args.dry_run else None
        pushed.append(
            {"device": table.tid.device, "environment": table.tid.environment, "rows": rows,
             "already_there": len(table.rows) - rows, "object": name}
        )  # fmt: skip
    if args.format == "json":
        print_json({"remote": place.name, "done": not args.dry_run, "tables": pushed})
        return 0
    verb = "would be pushed" if args.dry_run else "pushed"
    for entry in pushed:
        counts = f"{entry['rows']} rows {verb}, {entry['already_there']} are there or were never verified"
        print(printable(f"{entry['device']}/{entry['environment']}: {counts}"))
    return 0


def _parser() -> argparse.ArgumentParser:
    text = "Add rows to a remote (a directory, file://, s3:// and whatever fsspec knows). Nothing there is changed."
    parser = argparse.ArgumentParser(prog="tunelaunch push", description=text, allow_abbrev=False)
    parser.add_argument("url", metavar="URL", help="a directory, or a URL")
    add_selection(parser, None)
    parser.add_argument("--dry-run", action="store_true", help="say what would be pushed, write nothing")
    add_key(parser)
    add_common(parser)
    return parser
