"""Who is in an item, or else which film it was cut from: several items of one person or film are one witness."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from videoveil.data.records import Item


def film(item: Item) -> str:
    """The film that an item was cut from, by any name that other items of it have too; empty where nothing tells."""
    if source := item.extra.get("source"):
        return source
    if group := item.extra.get("group"):
        return f"{item.action} {group}"  # UCF101 counts the groups of each action anew
    return str(item.path) if item.clip is not None else ""


def people(items: Iterable[Item]) -> dict[str, str]:
    """Item → who is in it, or else the film it was cut from; items of which neither is known are left out."""
    owners = {item.id: item.subject or film(item) for item in items}
    return {name: owner for name, owner in owners.items() if owner}


def together(items: Sequence[Item]) -> list[str]:
    """What must stay together when items are dealt out: the first id of the same person, or else of the same film.

    Their names play no part: a film may be known by where its file is, which is another place for raw videos than for
    anonymized ones, and of both the same are to be held out. An item of which nothing is known is by itself. So is
    every one where all are of one person: there is nobody else to keep them from.
    """
    owners = people(items)
    first: dict[str, str] = {}
    for item in sorted(items, key=lambda one: one.id):
        if item.id in owners:
            first.setdefault(owners[item.id], item.id)
    found = [first.get(owners.get(item.id, ""), item.id) for item in items]
    return found if len(set(found)) > 1 else [item.id for item in items]
