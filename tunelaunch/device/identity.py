"""Which table belongs to a device in its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tunelaunch.device.environment import Environment
from tunelaunch.device.facts import DeviceFacts
from tunelaunch.errors import IdentityError

if TYPE_CHECKING:
    from tunelaunch.store.identity import TableId


def table_id(facts: DeviceFacts, environment: Environment) -> TableId:
    """The id of the one table that holds this device's rows.

    Raises :class:`IdentityError` when the device has no name: rows of unnamed devices would all share one table.
    """
    from tunelaunch.store.identity import TableId

    if not facts.name.strip() or facts.name.strip().lower() in {"unknown", "none"}:
        raise IdentityError("the driver gives this GPU no name, so no table can belong to it; nothing is kept")
    return TableId(device=facts.slug, environment=environment.id)
