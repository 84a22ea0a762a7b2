"""``tunelaunch export FILE``: tables into one file for another host, or for FlashInfer itself."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunelaunch.cli.output import add_common, print_json, printable, say
from tunelaunch.cli.sharing import add_key, add_selection, chosen_tables
from tunelaunch.errors import ShareError, UsageError
from tunelaunch.options import Own

if TYPE_CHECKING:
    from tunelaunch.share.document import SharedTable


def run(argv: Sequence[str], own: Own) -> int:
    """Write the file; raises :class:`ShareError` when there is nothing to write, or it cannot be written."""
    args = _parser().parse_args(list(argv))
    tables = chosen_tables(args, own)
    if args.what == "flashinfer":
        data, detail = _plain(tables)
    else:
        data, detail = _bundle(tables, args)
    result = {
        "file": args.file,
        "as": args.what,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "tables": [
            {"device": t.tid.device, "environment": t.tid.environment, "rows": len(t.rows)} for t in tables
        ],
        **detail,
    }  # fmt: skip
    if args.file == "-":
        sys.stdout.buffer.write(data)
        return 0
    _write(Path(args.file).expanduser(), data)
    if args.format == "json":
        print_json(result)
        return 0
    for table in tables:
        print(f"{table.tid}: {len(table.rows)} rows")
    signed = ", signed" if detail.get("signed") else ", not signed" if args.what == "bundle" else ""
    print(printable(f"{args.file}: {len(data)} bytes{signed}, SHA-256 {result['sha256']}"))
    return 0


def _parser() -> argparse.ArgumentParser:
    text = "Write tables to one file: equal tables give equal bytes."
    parser = argparse.ArgumentParser(prog="tunelaunch export", description=text, allow_abbrev=False)
    parser.add_argument("file", metavar="FILE", help="where to (- for standard output; a name in .gz is compressed)")
    add_selection(parser, "all tables that match, not just one")
    parser.add_argument("--as", dest="what", choices=("bundle", "flashinfer"), default="bundle",
                        help="a bundle (default), or a plain file that FlashInfer loads")  # fmt: skip
    add_key(parser)
    add_common(parser)
    return parser


def _bundle(tables: Sequence[SharedTable], args: argparse.Namespace) -> tuple[bytes, dict[str, Any]]:
    from tunelaunch.share.archive import compress
    from tunelaunch.share.bundle import make_bundle
    from tunelaunch.share.signing import trust_from

    trust = trust_from(key_file=args.key_file)
    data = make_bundle(tables, trust)
    return compress(data) if args.file.endswith((".gz", ".tgz")) else data, {"signed": trust.key is not None}


def _plain(tables: Sequence[SharedTable]) -> tuple[bytes, dict[str, Any]]:
    from tunelaunch.share.plainfile import flashinfer_file

    if len(tables) != 1:
        raise UsageError("a FlashInfer file holds one table: choose with --device and --environment")
    data, left = flashinfer_file(tables[0])
    for why, number in left.items():
        say(f"{number} rows left out: {why}")
    return data, {"left_out": dict(left)}


def _write(path: Path, data: bytes) -> None:
    from tunelaunch.store.files import atomic_write

    try:
        if path.is_dir():
            raise ShareError(f"{path} is a directory; give a file name")
        atomic_write(path.absolute(), data)
    except OSError as error:
        raise ShareError(f"{path} cannot be written ({error.strerror}); nothing was exported") from error
