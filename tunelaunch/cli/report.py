"""``tunelaunch report [LAUNCH]``: what a start loaded, tuned and left at default."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from tunelaunch.cli import places
from tunelaunch.cli.output import add_common, print_json, printable
from tunelaunch.errors import StoreError
from tunelaunch.options import Own
from tunelaunch.report.summary import summary_lines


def run(argv: Sequence[str], own: Own) -> int:
    """Print the report of a start; raises :class:`StoreError` when there is none."""
    parser = argparse.ArgumentParser(
        prog="tunelaunch report", description="What a start loaded, tuned and left at default.", allow_abbrev=False
    )
    parser.add_argument("launch", nargs="?", help="id of the start (default: the last one)")
    add_common(parser)
    args = parser.parse_args(list(argv))
    report = _find(args, own)
    if args.format == "json":
        print_json(report)
        return 0
    print(printable(f"launch {report.get('launch') or 'unknown'}"))
    for line in summary_lines(report):
        print(printable(line))
    return 0


def _find(args: argparse.Namespace, own: Own) -> Mapping[str, Any]:
    root = places.root_of(args, own)
    found = [r for place in (root, places.overlay()) if (r := places.store_to_read(place).read_report(args.launch))]
    # The newest by id (ids start with the time), since a report can be in the root or in the overlay.
    if found:
        return max(found, key=lambda report: str(report.get("launch", "")))
    what = f"of launch {args.launch}" if args.launch else "of any launch"
    raise StoreError(
        f"there is no report {what} under {root}; a start through tunelaunch writes one when it is ready to serve"
    )
