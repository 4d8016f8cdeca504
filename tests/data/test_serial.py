"""Records survive JSON."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from videoveil.data.records import AttributeSpan, Dataset, FrameSpan, Item, Segment
from videoveil.data.serial import dataset_from_json, dataset_to_json

names = st.text(min_size=1, max_size=8)
fractions = st.fractions(min_value=0, max_value=10_000)
spans = st.tuples(st.integers(0, 99), st.integers(100, 999))
items = st.builds(
    Item,
    id=names,
    path=st.just(Path("a/b.avi")),
    split=st.sampled_from(["train", "val", "test", "unused"]),
    kind=st.sampled_from(["video", "image"]),
    action=st.none() | names,
    actions=st.lists(names, max_size=3).map(tuple),
    attributes=st.none() | st.dictionaries(names, st.integers(0, 1), min_size=1, max_size=3),
    attribute_spans=st.lists(
        st.builds(
            lambda s, v: AttributeSpan(*s, v),
            spans,
            st.dictionaries(
                names, st.lists(st.integers(0, 3), min_size=1, max_size=2).map(tuple), max_size=2
            ),
        ),
        max_size=2,
    ).map(tuple),
    segments=st.lists(st.builds(Segment, names, fractions, fractions), max_size=3).map(tuple),
    anomaly=st.none() | st.booleans(),
    anomaly_spans=st.lists(st.builds(lambda s, v: FrameSpan(*s, v), spans, names), max_size=2).map(tuple),
    duration=st.none() | fractions,
    rate=st.none() | fractions,
    clip=st.none() | st.tuples(fractions, fractions),
    subject=st.none() | names,
    extra=st.dictionaries(names, names, max_size=2),
)


@given(st.lists(items, max_size=4), st.lists(names, max_size=3))
def test_a_dataset_is_the_same_after_json(found: list[Item], classes: list[str]) -> None:
    dataset = Dataset("mine", Path("root"), tuple(found), tuple(classes), ("x",), ("a: broken",), ("odd",))
    text = json.dumps(dataset_to_json(dataset))
    assert dataset_from_json(json.loads(text)) == dataset
