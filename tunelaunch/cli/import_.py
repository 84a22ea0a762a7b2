"""``tunelaunch import FILE|DIR|URL``: tables of another host, or of a neighbour, into the store here."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tunelaunch.cli.output import add_common
from tunelaunch.cli.sharing import add_key, environment_notes, put, roots_of, show
from tunelaunch.errors import ShareError
from tunelaunch.options import Own


def run(argv: Sequence[str], own: Own) -> int:
    """Import, or say what would be; raises :class:`ShareError`, the store as it was, when something is refused."""
    from tunelaunch.share import stock
    from tunelaunch.share.signing import trust_from
    from tunelaunch.share.sources import open_source

    args = _parser().parse_args(list(argv))
    roots = roots_of(args, own)
    expected = args.expect_environment or args.environment
    known = [(tid, env) for tid, env in stock.known_environments(roots) if tid.environment.startswith(expected or "")]
    source = open_source(args.source, trust_from(key_file=args.key_file), known)
    notes = list(source.notes)
    if args.environment and source.kind == "flashinfer" and not known:
        raise ShareError(f"environment {args.environment} is not known here; nothing was imported")
    notes += environment_notes(source.tables, roots, args.expect_environment)
    origin = f"{stock.IMPORTED}{source.digest[:12] or source.kind}"
    plans = put(args, own, source.tables, origin)
    detail = {"source": source.origin, "kind": source.kind, "signed": source.signed, "not_taken": source.refused}
    show(args, plans, notes, detail)
    return 0


def _parser() -> argparse.ArgumentParser:
    text = (
        "Merge tables into the store: a bundle, a cache directory, or files of FlashInfer (which SGLang and vLLM keep). "
        "Everything is checked before anything is changed."
    )
    parser = argparse.ArgumentParser(prog="tunelaunch import", description=text, allow_abbrev=False)
    parser.add_argument("source", metavar="FILE|DIR|URL", help="what to import (- for a bundle on standard input)")
    parser.add_argument("--dry-run", action="store_true", help="check and say what would be done, change nothing")
    parser.add_argument("--expect-environment", metavar="ID", help="refuse tables of any other environment")
    parser.add_argument("--environment", metavar="ID", help="environment that FlashInfer's files are read into")
    add_key(parser)
    add_common(parser)
    return parser
