"""Agreement of the ranks that tune together: rendezvous first, then a fixed sequence of messages.

Before the first collective every rank announces itself in the group's key-value store, which needs no other rank to be
there. The leader waits for all, compares protocol and environment, and writes one decision that the others wait for: go,
or stand aside together. After *go* each step is one :meth:`Member.exchange` (:meth:`Member.tell` for the leader's word),
in which every rank says ok or failed; a rank in trouble keeps answering, so nobody is left in a collective. No lock is
held while a message is under way.
"""

from __future__ import annotations

import json
import pickle
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tunelaunch.errors import AgreementError

PROTOCOL = 1
RENDEZVOUS_SECONDS = 30.0
"""How long the leader waits for the slowest rank; ranks reach the first pass within seconds of each other."""
_MARGIN_SECONDS = 15.0


@dataclass(frozen=True)
class Message:
    """What one rank said at one step. ``payload`` is ``None`` when it failed; ``error`` then says why."""

    rank: int
    step: str
    ok: bool
    payload: Any
    error: str = ""


@dataclass(frozen=True)
class Member:
    """This rank's place in the group that tunes together. ``group`` is a CPU process group, ``None`` for a group of one."""

    rank: int = 0
    world: int = 1
    ranks: tuple[int, ...] = (0,)
    group: Any = None

    @property
    def leader(self) -> bool:
        """Whether this rank reads and writes the store for the group."""
        return self.rank == 0

    def exchange(self, step: str, payload: Any = None, error: BaseException | None = None) -> list[Message]:
        """Tell every rank ``payload`` (or that this rank failed) and return what each said, in rank order.

        Raises :class:`AgreementError` on every rank alike when one of them failed or is at another step.
        """
        said = Message(self.rank, step, error is None, payload if error is None else None, str(error or ""))
        messages = [said]
        if self.group is not None:
            import torch.distributed as dist

            gathered: list[Any] = [None] * self.world
            dist.all_gather_object(gathered, _pack(said), group=self.group)
            messages = [said if rank == self.rank else _unpack(text) for rank, text in enumerate(gathered)]
        steps = {message.step for message in messages}
        if len(steps) > 1:
            raise AgreementError(f"Ranks are at different steps ({', '.join(sorted(steps))}).")
        failed = [f"rank {self.ranks[m.rank]}: {m.error or 'failed'}" for m in messages if not m.ok]
        if failed:
            raise AgreementError(f"Step '{step}' failed on {'; '.join(failed)}.")
        return messages

    def tell(self, step: str, payload: Any = None, error: BaseException | None = None) -> Any:
        """The leader's ``payload``, on every rank. Raises like :meth:`exchange`, which asks first whether all are well.

        For what only the leader has to say: in a gathering every rank would receive as much from each as from the longest.
        """
        packed, bad = attempt(_pack, payload) if self.leader and self.group is not None else (None, None)
        self.exchange(step, None, error or bad)
        if self.group is None:
            return payload
        import torch.distributed as dist

        box: list[Any] = [packed]
        dist.broadcast_object_list(box, src=self.ranks[0], group=self.group)
        return payload if self.leader else _unpack(box[0])

    def all_well(self, error: BaseException | None) -> bool:
        """Whether no rank has an error: the cheapest of all messages, for the middle of a tuning pass."""
        if self.group is None:
            return error is None
        import torch
        import torch.distributed as dist

        well = torch.tensor([error is None], dtype=torch.int32)
        dist.all_reduce(well, op=dist.ReduceOp.MIN, group=self.group)
        return bool(well.item())


def attempt(function: Any, *args: Any) -> tuple[Any, BaseException | None]:
    """Run ``function``; (its value, ``None``) or (``None``, the exception). For use between two exchanges."""
    try:
        return function(*args), None
    except Exception as error:
        return None, error


def _pack(value: Any) -> bytes:
    return zlib.compress(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL), level=1)


def _unpack(data: bytes) -> Any:
    return pickle.loads(zlib.decompress(data))


def member_of(coordinator: Any) -> Member:
    """The member for SGLang's tensor-parallel group coordinator (``None``: a group of one)."""
    if coordinator is None or coordinator.world_size <= 1:
        return Member()
    return Member(
        rank=coordinator.rank_in_group,
        world=coordinator.world_size,
        ranks=tuple(coordinator.ranks),
        group=coordinator.cpu_group,
    )


def rendezvous(member: Member, card: Mapping[str, Any], store: Any, seconds: float | None = None) -> str | None:
    """Meet the group. ``None`` means go; otherwise the reason why the whole group stands aside.

    ``card`` holds what must be equal on all ranks (``environment``: a mapping, compared field by field; ``retune``...).
    ``store`` is a ``torch.distributed.Store``. Takes at most ``seconds`` (default :data:`RENDEZVOUS_SECONDS`) on the leader
    and a margin more elsewhere.
    """
    if member.world == 1:
        return None
    seconds = RENDEZVOUS_SECONDS if seconds is None else seconds
    prefix = f"tunelaunch/group-{'-'.join(map(str, member.ranks))}"
    mine = {"protocol": PROTOCOL, **card}
    store.set(f"{prefix}/{member.rank}", json.dumps(mine, sort_keys=True))
    if member.leader:
        reason = _missing(member, store, prefix, seconds) or _different(
            member, [json.loads(store.get(f"{prefix}/{rank}")) for rank in range(member.world)]
        )
        return _decision(store, prefix, reason)
    patience = seconds + _MARGIN_SECONDS
    try:
        store.wait([f"{prefix}/decision"], timedelta(seconds=patience))
    except Exception:
        # The leader may still come: then it finds this word and stands aside too.
        return _decision(
            store, prefix, f"rank {member.ranks[member.rank]} heard nothing from its leader in {patience:.0f} s"
        )
    return _decision(store, prefix, None)


def _decision(store: Any, prefix: str, mine: str | None) -> str | None:
    """Set the group's one decision, or take the one that stands: the first word counts for everybody."""
    stands = store.compare_set(f"{prefix}/decision", "", json.dumps(mine or ""))
    return json.loads(stands) or None


def _missing(member: Member, store: Any, prefix: str, seconds: float) -> str | None:
    try:
        store.wait([f"{prefix}/{rank}" for rank in range(member.world)], timedelta(seconds=seconds))
    except Exception:
        absent = [member.ranks[rank] for rank in range(member.world) if not store.check([f"{prefix}/{rank}"])]
        return (
            f"no word from rank {', '.join(map(str, absent))} within {seconds:.0f} s (tunelaunch is not active there)"
        )
    return None


def _different(member: Member, cards: Sequence[Mapping[str, Any]]) -> str | None:
    for rank, card in enumerate(cards[1:], start=1):
        for name in sorted({*cards[0], *card}):
            ours, theirs = cards[0].get(name), card.get(name)
            if ours == theirs:
                continue
            field = name
            if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
                field, ours, theirs = next(
                    (f, ours.get(f), theirs.get(f)) for f in sorted({*ours, *theirs}) if ours.get(f) != theirs.get(f)
                )
            return f"rank {member.ranks[rank]} differs from rank {member.ranks[0]} in {field}: {theirs!r} and {ours!r}"
    return None


def default_store() -> Any:
    """The key-value store of the distributed world, which needs no peer to answer."""
    from torch.distributed import distributed_c10d

    return distributed_c10d._get_default_store()
