"""The end of start-up, in SGLang's main process: receipts of all ranks become the summary in the log and the report."""

from __future__ import annotations

import logging
from pathlib import Path

from tunelaunch.contract import Contract
from tunelaunch.errors import TunelaunchError
from tunelaunch.report.model import assemble
from tunelaunch.report.receipts import read_receipts
from tunelaunch.report.summary import summary_lines
from tunelaunch.store import Store

log = logging.getLogger("tunelaunch")


def report_start(contract: Contract, schedulers: int = 0) -> None:
    """Print the summary and write ``reports/<launch>.json``. ``schedulers`` is how many SGLang waited for on this node.

    With strict mode, raises :class:`TunelaunchError` when a rank sent no receipt, stood aside or fell back: SGLang then
    ends before it serves. Otherwise nothing gets out.
    """
    problem = None
    try:
        receipts = read_receipts(contract.run_dir)
        # Receipts know the ranks of all nodes; without any, all that is known is whom SGLang waited for.
        expected = None if any(r.get("world") for r in receipts) else schedulers or None
        report = dict(assemble(receipts, contract.launch, expected))
        overlay = Path(contract.run_dir).parent / "cache"
        readonly = contract.mode == "readonly"
        store = Store.open(contract.cache_dir or overlay, overlay=overlay, readonly=readonly)
        path = store.write_report(contract.launch, report)
        for line in summary_lines(report):
            log.info("tunelaunch: %s", line)
        log.info("tunelaunch: report %s", path if path is not None else "could not be written")
        if report.get("missing_ranks") or report.get("fallbacks"):
            problem = "; ".join([*(f"no receipt from rank {r}" for r in report["missing_ranks"]), *report["fallbacks"]])
    except Exception as error:
        log.warning("tunelaunch: the start could not be reported (%s: %s)", type(error).__name__, error)
        problem = f"the start could not be reported ({error})"
    if problem and contract.strict:
        raise TunelaunchError(f"--tunelaunch-strict: not serving, because: {problem}")
