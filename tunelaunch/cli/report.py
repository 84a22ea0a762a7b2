"""``tunelaunch report [LAUNCH]``: what a start loaded, tuned and left at default."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from tunelaunch.cli import places
from tunelaunch.cli.output import add_common, print_json, printable
from tunelaunch.cli.report_rows import print_details
from tunelaunch.errors import StoreError
from tunelaunch.options import Own
from tunelaunch.report.summary import summary_lines

EXAMPLES = """\
US and DEFAULT US are microseconds of the whole op with the row's tactic and with FlashInfer's default, measured in this
start (MEASURED: now) or recorded by the one that tuned the row.

examples
  tunelaunch report
  tunelaunch report --summary                     a dozen lines
  tunelaunch report --format json                 everything, tracebacks too
"""
_LISTED = 5


def run(argv: Sequence[str], own: Own) -> int:
    """Print the report of a start; raises :class:`StoreError` when there is none."""
    parser = argparse.ArgumentParser(
        prog="tunelaunch report",
        description="What a start loaded, tuned and left at default.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("launch", nargs="?", metavar="LAUNCH", help="id of the start (default: the last one)")
    parser.add_argument("--summary", action="store_true", help="only the lines that the start logged")
    add_common(parser)
    args = parser.parse_args(list(argv))
    report = _find(args, own)
    if args.format == "json":
        print_json(report)
        return 0
    print(printable(f"launch {report.get('launch') or 'unknown'}"))
    summary = summary_lines(report)
    for line in summary:
        print(printable(line))
    if not args.summary:
        print_details(report, summary)
    return 0


def _find(args: argparse.Namespace, own: Own) -> Mapping[str, Any]:
    root = places.root_of(args, own)
    stores = [places.store_to_read(place) for place in (root, places.overlay())]
    found = [report for store in stores if (report := store.read_report(args.launch))]
    # The newest by id (ids start with the time), since a report can be in the root or in the overlay.
    if found:
        return max(found, key=lambda report: str(report.get("launch", "")))
    known = sorted({launch for store in stores for launch in store.launches()}, reverse=True)
    if args.launch and known:
        more = f" and {len(known) - _LISTED} older" if len(known) > _LISTED else ""
        raise StoreError(f"there is no report of launch {args.launch}; there are: {', '.join(known[:_LISTED])}{more}")
    what = f"of launch {args.launch}" if args.launch else "of any launch"
    raise StoreError(
        f"there is no report {what} under {root}; a start through tunelaunch writes one when it is ready to serve"
    )
