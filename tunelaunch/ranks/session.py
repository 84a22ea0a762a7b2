"""One process of SGLang that tunes: who it is, what it was given, and the receipt that proves what it did.

A session outlives its tuning passes (target, EXTEND, draft, an elastic recapture): each pass adds rows to what was
settled before, and the receipt is rewritten after each.
"""

from __future__ import annotations

import logging
import os
import socket
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tunelaunch import contract as contract_module
from tunelaunch.contract import Contract
from tunelaunch.device.conditions import snapshot
from tunelaunch.device.environment import Environment
from tunelaunch.device.facts import DeviceFacts
from tunelaunch.device.identity import table_id
from tunelaunch.device.packages import packages_digest
from tunelaunch.device.torch_facts import facts_from_torch
from tunelaunch.errors import TunelaunchError
from tunelaunch.hosts import flashinfer as fi
from tunelaunch.hosts import sglang as host
from tunelaunch.ranks.agree import Member, default_store, member_of, rendezvous
from tunelaunch.ranks.cases import Stage
from tunelaunch.ranks.feed import Feeder, usable
from tunelaunch.ranks.journal import Journal, expired, leftovers
from tunelaunch.ranks.sources import Sources
from tunelaunch.report.receipts import write_receipt
from tunelaunch.store import Row, Store, TableId
from tunelaunch.store.hidden import Hidden, hides

log = logging.getLogger("tunelaunch")


@dataclass(frozen=True)
class Identity:
    """The device of this process, its environment and the table that belongs to both."""

    facts: DeviceFacts
    environment: Environment
    flashinfer: Mapping[str, str]
    table: TableId


@dataclass(frozen=True)
class Given:
    """What the leader read for the group: rows to feed, rows that a retune must beat, and tactics never to use."""

    rows: tuple[Row, ...] = ()
    incumbents: tuple[Row, ...] = ()
    hidden: Hidden = frozenset()
    problems: tuple[str, ...] = ()
    journal: str | None = None
    """Folder of the table's journal, the same on every rank."""

    def packed(self) -> tuple[Any, ...]:
        """What the other ranks need of it, in plain tuples: a table's evidence stays with the leader."""
        rows, held = (
            [(r.key, r.value, r.scope, r.op, r.set, bool(r.evidence.get("unverified"))) for r in part]
            for part in (self.rows, self.incumbents)
        )
        return rows, held, self.hidden, self.problems, self.journal

    @classmethod
    def unpacked(cls, told: tuple[Any, ...]) -> Given:
        """The inverse of :meth:`packed`, without the evidence."""
        rows, held = (
            tuple(
                Row(key=key, value=value, scope=scope, op=op, set=group, evidence={"unverified": True} if new else {})
                for key, value, scope, op, group, new in part
            )
            for part in told[:2]
        )
        return cls(rows, held, *told[2:])


@dataclass
class Session:
    """State of one process.

    ``place`` is (rank, ranks in all) over the whole server; ``redirect`` is the file that SGLang shall use as its cache
    while a pass of ours is open; ``largest`` is the largest bucket of each op that a pass covered.
    """

    contract: Contract
    place: tuple[int, int] | None = None
    member: Member = field(default_factory=Member)
    identity: Identity | None = None
    store: Store | None = None
    sources: Sources | None = None
    feeder: Feeder | None = None
    met: bool = False
    aside: str | None = None
    redirect: Path | None = None
    settled: dict[Stage, Row] = field(default_factory=dict)
    largest: dict[str, int] = field(default_factory=dict)
    passes: list[dict[str, Any]] = field(default_factory=list)
    table: dict[str, Any] = field(default_factory=lambda: {"path": None, "generation": None, "published": 0})
    fallbacks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    nothing: str | None = None
    """Why SGLang runs no tuning pass here; said if none was run."""
    trace: str | None = None
    state: str = "standby"

    # -- what is said -----------------------------------------------------------------------------------------------

    def fall_back(self, line: str) -> None:
        """Say once, in one line, what is done instead."""
        if line not in self.fallbacks:
            self.fallbacks.append(line)
            log.warning("tunelaunch: %s", line)

    def bug(self, error: BaseException, where: str) -> None:
        """An exception of ours that must not reach SGLang: named in the log, with its traceback in the receipt."""
        if isinstance(error, TunelaunchError):
            self.fall_back(f"{where}: {error}")
            return
        if self.trace is None:
            self.trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.fall_back(f"{where} failed inside tunelaunch ({type(error).__name__}: {error}); SGLang goes on without it")

    def receipt(self) -> None:
        """Write this process's receipt; a receipt that cannot be written is only missing from the report."""
        rank, world = self.place or host.global_rank()
        body = {
            "schema": "tunelaunch/receipt/1",
            "rank": rank,
            "world": world,
            "leader": self.member.leader,
            "pid": os.getpid(),
            "state": "aside" if self.aside else self.state,
            "device": self.identity.facts.to_json() if self.identity else {},
            "environment": self.environment_json(),
            "passes": self.passes,
            "nothing": None if self.passes else self.nothing,
            "table": self.table | (self.sources.used(self.settled.values()) if self.sources else {}),
            "fallbacks": self.fallbacks,
            "problems": self.problems,
            "traceback": self.trace,
        }
        try:
            write_receipt(self.contract.run_dir, body)
        except Exception as error:
            log.warning("tunelaunch: no receipt could be written (%s)", error)

    def environment_json(self) -> dict[str, Any]:
        """The environment as reports and tables carry it."""
        if self.identity is None:
            return {}
        environment = self.identity.environment
        return {
            "id": environment.id,
            "fields": dict(environment.fields),
            "indeterminate": list(environment.indeterminate),
        }

    def stamp(self) -> dict[str, Any]:
        """Where and when a row was made; part of its evidence."""
        return {
            "launch": self.contract.launch,
            "host": socket.gethostname(),
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "policy": f"layer, interleaved, {self.contract.effort}",
        }

    def conditions(self) -> dict[str, Any]:
        """The state of the card now, for the evidence (the leader's card; nothing on a host without NVML)."""
        return snapshot(self.identity.facts.uuid) if self.identity is not None and self.member.leader else {}

    # -- what is found out --------------------------------------------------------------------------------------------

    def identify(self) -> Identity:
        """The identity of this process; computed once, when CUDA and its libraries are initialised."""
        if self.identity is None:
            facts = facts_from_torch()
            metadata = fi.metadata()
            environment = Environment.of(
                facts,
                flashinfer=metadata,
                packages=packages_digest(),
                tag=self.contract.tag,
                info={"sglang": host.version()},
            )
            self.identity = Identity(facts, environment, metadata, table_id(facts, environment))
        return self.identity

    def meet(self) -> str | None:
        """Find this rank's group and agree, once, to go on; otherwise the reason why the group stands aside."""
        if self.met:
            return self.aside
        self.met = True
        self.member = member_of(host.tp_group())
        if self.member.world > 1:
            identity = self.identify()
            card = {
                "environment": dict(identity.environment.fields) | {"id": identity.environment.id},
                "retune": self.contract.retune,
                "effort": self.contract.effort,
                "verify": self.contract.verify,
                "min_gain": self.contract.min_gain_percent,
                "launcher": contract_module.PLUGIN_NAME,
            }
            self.aside = rendezvous(self.member, card, default_store())
        return self.aside

    def read(self) -> Given:
        """What the table says for this process's device (the leader's part; other ranks hear it)."""
        if not self.member.leader:
            return Given()
        identity = self.identify()
        overlay = Path(self.contract.run_dir).parent / "cache"
        readonly = self.contract.mode == "readonly"
        self.store = self.store or Store.open(self.contract.cache_dir or overlay, overlay=overlay, readonly=readonly)
        if not readonly and (unmarked := self.store.mark_in_use(identity.table, self.contract.launch, os.getpid())):
            self.problems.append(str(unmarked))
        loaded = self.store.load(identity.table)
        folder = self.store.paths(identity.table).journal
        killers = [] if readonly else leftovers(folder)
        if killers:
            self.store.add_quarantine(identity.table, killers)
            names = ", ".join(f"{e['op']} tactic {e['tactic']}" for e in killers)
            self.fall_back(f"{names}: a process ended while it tried this; skipped until {killers[0]['expires']}")
        hidden = frozenset(
            (str(e.get("key")), e.get("scope"), str(e.get("runner")), repr(e.get("tactic")))
            for e in (*self.store.read_quarantine(identity.table), *killers)
            if not expired(e) and isinstance(e.get("scope"), (str, type(None)))
        )
        rows = loaded.table.rows if loaded.table else ()
        self.sources = self.sources or Sources.of(self.contract)
        more = self.sources.more(identity.table, identity.environment, rows, self.store, not readonly)
        hidden |= more.hidden
        rows = tuple(r for r in (*rows, *more.rows) if not hides(hidden, r.op, r.key, r.scope, r.runner, r.tactic))
        problems = [str(p) for p in dict.fromkeys((*self.store.problems, *loaded.problems))] + list(more.problems)
        fit, lines = usable(rows)
        if loaded.table is not None:
            self.table |= {"generation": loaded.table.generation, "path": str(self.store.paths(identity.table).table)}
        given = () if self.contract.retune else tuple(fit)
        held = tuple(fit) if self.contract.retune else ()
        return Given(given, held, hidden, (*problems, *lines), None if readonly else str(folder))

    def take(self, given: Given) -> Feeder:
        """Begin to feed ``given`` and what earlier passes settled."""
        identity = self.identify()
        for problem in given.problems:
            if problem not in self.problems:
                self.problems.append(problem)
                if self.member.leader:
                    log.warning("tunelaunch: %s", problem)
        rank, _ = self.place or host.global_rank()
        directory = Path(self.contract.run_dir) / f"rank-{rank}"
        self.feeder = Feeder(directory, identity.flashinfer)
        self.feeder.take(given.rows)
        self.feeder.take(self.settled.values())
        return self.feeder

    def journal(self, given: Given) -> Journal:
        """This rank's journal of probes for one pass."""
        rank, _ = self.place or host.global_rank()
        name = f"{self.contract.launch}-{socket.gethostname()}-rank-{rank}.json"
        return Journal(Path(given.journal) / name if given.journal else None, self.contract.launch)

    def publish(self, rows: list[Row], quarantine: list[dict[str, Any]]) -> None:
        """Write new rows and quarantined tactics to the table (leader only); a store that fails is a fallback, not an error."""
        if not self.member.leader or self.store is None or self.identity is None or self.contract.mode == "readonly":
            return
        identity = self.identity
        done = self.store.publish(
            identity.table,
            rows,
            environment=dict(identity.environment.fields),
            replace=self.contract.retune,
            launch=self.contract.launch,
        )
        for problem in done.problems:
            self.fall_back(str(problem))
        if done.generation is not None:
            self.table["generation"] = done.generation
        self.table["path"] = done.path or self.table["path"]
        self.table["published"] += done.added + done.replaced
        for problem in self.store.add_quarantine(identity.table, quarantine) if quarantine else ():
            self.fall_back(str(problem))
        if self.sources is not None:
            for line in self.sources.push(identity.table, identity.environment.fields, rows, quarantine):
                self.fall_back(line)
