"""What agreement costs: 8 ranks, 5,000 rows, one message each, on this machine's CPU.

    python benchmarks/agreement.py [--ranks 8] [--rows 5000]

Prints milliseconds of the message that brings the leader's rows to every rank, of an empty message, and of the yes or no
that is asked in the middle of a pass; each the median of nine on the slowest rank. Target for the rows: under 150 ms.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import time
from typing import Any

TARGET_MS = 150.0
_REPEATS = 9


def rows(count: int) -> list[Any]:
    """Rows as a table holds them, evidence included."""
    from tunelaunch.store import Row

    made = []
    for number in range(count):
        shapes = f"((1, 2560), (256, 1280, 160), (0,), (256, 2560, {number}), (0,))"
        evidence = {
            "launch": "0123456789ab", "host": "node-1", "at": "2026-01-01T00:00:00Z", "choice": "tuned", "why": "fastest",
            "tokens": 1 << number % 14, "us": {"winner": 100.0 + number, "default": 120.0, "runner_up": 101.0},
            "gain_percent": 16.7, "noise_percent": 0.4, "tried": 12,
        }  # fmt: skip
        key = f"('trtllm::fused_moe::gemm{1 + number % 2}', 'MoERunner', {shapes}, (10, 1, 0, 2))"
        made.append(Row(key=key, value=["MoERunner", number % 40], op="trtllm::fused_moe::gemm1", evidence=evidence))
    return made


def member(rank: int, ranks: int, count: int, port: int) -> None:
    """One rank."""
    import torch
    import torch.distributed as dist

    from tunelaunch.ranks.agree import Member
    from tunelaunch.ranks.session import Given

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    me = Member(rank, ranks, tuple(range(ranks)), dist.group.WORLD)
    given = Given(tuple(rows(count)) if rank == 0 else ())
    asked = {
        f"{count} rows from the leader": lambda: Given.unpacked(me.tell("rows", given.packed())),
        "an empty message": lambda: me.exchange("ready"),
        "a yes or no": lambda: me.all_well(None),
    }
    for name, ask in asked.items():
        times = []
        for _ in range(_REPEATS):
            dist.barrier()
            begun = time.perf_counter()
            ask()
            slowest = torch.tensor([time.perf_counter() - begun])
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            times.append(1e3 * slowest.item())
        if rank == 0:
            print(f"{name}: {statistics.median(times):.1f} ms ({ranks} ranks, {os.cpu_count()} cores)", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    """Start the ranks and wait for them."""
    import torch.multiprocessing as processes

    parser = argparse.ArgumentParser(description="Cost of agreement between ranks.")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rows", type=int, default=5000)
    given = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # Forked, since eight imports of torch take longer than all that is measured.
    processes.start_processes(member, (given.ranks, given.rows, port), given.ranks, start_method="fork")


if __name__ == "__main__":
    main()
