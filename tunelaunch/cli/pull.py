"""``tunelaunch pull URL``: the rows of a remote merged into the store here."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tunelaunch.cli.output import add_common
from tunelaunch.cli.sharing import add_key, add_selection, environment_notes, put, roots_of, show
from tunelaunch.errors import ShareError
from tunelaunch.options import Own


def run(argv: Sequence[str], own: Own) -> int:
    """Pull, or say what would be; raises :class:`ShareError`, the store as it was, when something is refused."""
    from tunelaunch.share.places import open_place
    from tunelaunch.share.remote import read_remote, tables_at
    from tunelaunch.share.signing import trust_from
    from tunelaunch.share.stock import IMPORTED

    args = _parser().parse_args(list(argv))
    trust = trust_from(key_file=args.key_file)
    place = open_place(args.url)
    there = [read_remote(place, tid, trust) for tid in tables_at(place, args.device, args.environment)]
    notes = [problem for part in there for problem in part.problems]
    tables = [part.table for part in there if part.table is not None]
    if not tables:
        raise ShareError(f"{place.name} holds no table that matches" + (f" ({notes[0]})" if notes else ""))
    notes += environment_notes(tables, roots_of(args, own), args.expect_environment)
    plans = put(args, own, tables, f"{IMPORTED}remote")
    show(args, plans, notes, {"remote": place.name, "objects": sum(part.objects for part in there)})
    return 0


def _parser() -> argparse.ArgumentParser:
    text = "Merge the rows of a remote into the store (a directory, file://, http:// (read only), s3:// and more)."
    parser = argparse.ArgumentParser(prog="tunelaunch pull", description=text, allow_abbrev=False)
    parser.add_argument("url", metavar="URL", help="a directory, or a URL")
    add_selection(parser, None)
    parser.add_argument("--dry-run", action="store_true", help="check and say what would be done, change nothing")
    parser.add_argument("--expect-environment", metavar="ID", help="refuse tables of any other environment")
    add_key(parser)
    add_common(parser)
    return parser
