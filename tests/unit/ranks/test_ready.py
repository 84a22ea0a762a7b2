"""The end of start-up as SGLang's main process sees it, from the receipts alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tunelaunch.contract import Contract
from tunelaunch.errors import TunelaunchError
from tunelaunch.ranks.ready import report_start
from tunelaunch.report.receipts import write_receipt
from tunelaunch.store import Store


@pytest.fixture
def contract(tmp_path: Path) -> Contract:
    return Contract("20260101T000000Z-4242-0a1b", str(tmp_path / "run"), str(tmp_path / "root"), strict=True)


def test_a_start_in_which_no_scheduler_left_a_receipt_has_every_rank_missing(contract: Contract) -> None:
    with pytest.raises(TunelaunchError, match="no receipt from rank 0; no receipt from rank 1"):
        report_start(contract, schedulers=2)
    report = Store.open(contract.cache_dir).read_report(contract.launch)
    assert report is not None
    assert report["missing_ranks"] == [0, 1]


def test_receipts_that_know_of_more_ranks_than_this_node_has_count(contract: Contract) -> None:
    write_receipt(contract.run_dir, {"rank": 0, "world": 3, "state": "active", "leader": True})
    with pytest.raises(TunelaunchError, match="no receipt from rank 1; no receipt from rank 2"):
        report_start(contract, schedulers=1)


def test_a_start_with_all_receipts_serves(contract: Contract) -> None:
    write_receipt(contract.run_dir, {"rank": 0, "world": 1, "state": "active", "leader": True})
    report_start(contract, schedulers=1)


def test_a_start_that_must_not_write_leaves_nothing_in_the_cache(tmp_path: Path) -> None:
    contract = Contract("20260101T000000Z-4242-0a1b", str(tmp_path / "run"), str(tmp_path / "root"), mode="readonly")
    write_receipt(contract.run_dir, {"rank": 0, "world": 1, "state": "active", "leader": True})
    report_start(contract, schedulers=1)
    assert not (tmp_path / "root").exists()
