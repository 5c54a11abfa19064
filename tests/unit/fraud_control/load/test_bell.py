"""The bell: readers wake a group at a time, so that the event loop serves other requests between two groups."""

from __future__ import annotations

import asyncio

import pytest

from fraud_control.feed.bell import Bell, Group

pytestmark = pytest.mark.anyio


@pytest.fixture
async def bell() -> Bell:
    return Bell(asyncio.get_running_loop(), readers=2, apart_s=0.001)


@pytest.fixture
async def groups(bell: Bell) -> list[Group]:
    return [bell.join() for _ in range(5)]


async def test_the_first_group_wakes_at_once_and_the_others_after_it(bell: Bell, groups: list[Group]) -> None:
    news = [each.news for each in groups]
    bell.ring()
    assert [each.is_set() for each in news] == [True, True, False, False, False]
    await news[2].wait()
    assert not news[4].is_set()
    await news[4].wait()


async def test_a_ring_during_a_round_starts_another_round(bell: Bell, groups: list[Group]) -> None:
    bell.ring()
    first, last = groups[0].news, groups[4].news
    bell.ring()
    bell.ring()
    await first.wait()
    assert last.is_set()
    await groups[4].news.wait()


async def test_a_reader_takes_the_place_of_one_that_has_left(bell: Bell, groups: list[Group]) -> None:
    groups[0].leave()
    assert bell.join() is groups[0]
    assert bell.join() is groups[4]
    for each in groups[2:4]:
        each.leave()
    last = groups[4].news
    bell.ring()
    await last.wait()


async def test_the_end_wakes_all_groups_at_once(bell: Bell, groups: list[Group]) -> None:
    news = [each.news for each in groups]
    bell.ring_all()
    assert all(each.is_set() for each in news)
