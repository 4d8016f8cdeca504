from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from videoveil.serve.line import Line


def drained(line: Line) -> list[str]:
    async def take() -> list[str]:
        return [await line.next() for _ in range(len(line))]

    return asyncio.run(take())


def test_owners_take_turns() -> None:
    line = Line()
    for job in ("a1", "a2", "a3", "b1"):
        line.add(job[0], job)
    assert drained(line) == ["a1", "b1", "a2", "a3"]


def test_a_job_that_was_interrupted_comes_first_of_its_owner() -> None:
    line = Line()
    line.add("a", "a2")
    line.add("a", "a1", first=True)
    assert drained(line) == ["a1", "a2"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), unique=True), st.data())
def test_every_job_comes_out_once_in_the_order_of_its_owner(
    jobs: list[tuple[str, int]], data: st.DataObject
) -> None:
    line = Line()
    for owner, number in jobs:
        line.add(owner, f"{owner}{number}")
    dropped = set(data.draw(st.lists(st.sampled_from(jobs), unique=True))) if jobs else set()
    for owner, number in dropped:
        line.drop(owner, f"{owner}{number}")
        line.drop(owner, f"{owner}{number}")
    left = [job for job in jobs if job not in dropped]
    assert len(line) == len(left)
    out = drained(line)
    for owner in "abc":
        assert [job for job in out if job[0] == owner] == [f"{o}{n}" for o, n in left if o == owner]


def test_who_waits_is_woken() -> None:
    async def scene() -> str:
        line = Line()
        waiter = asyncio.create_task(line.next())
        await asyncio.sleep(0)
        line.add("a", "a1")
        return await asyncio.wait_for(waiter, 60)

    assert asyncio.run(scene()) == "a1"
