from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocols.conftest import SIDE, Twin
from videoveil.data.records import Item
from videoveil.data.twins.plan import MARKER
from videoveil.errors import UsageError
from videoveil.protocols.base import Reading
from videoveil.protocols.measures import Action, ActionProbe, Attributes, frame_rows
from videoveil.protocols.scales import PAPER, TINY, scale
from videoveil.protocols.subjects import Subject, from_run, raw
from videoveil.protocols.workshop import Workshop, evenly


@dataclass(frozen=True)
class Counting:
    """Notes every time it is taken."""

    taken: list[str] = field(default_factory=list, compare=False, repr=False)
    needs: tuple[str, ...] = ()
    value: float = 0.5

    def about(self, workshop: Workshop) -> str:
        return ""

    def run(self, workshop: Workshop, subject: Subject) -> dict[str, Reading]:
        self.taken.append(subject.row)
        return {"top1": Reading(self.value, None)}


def item(number: int, split: str, action: str | None, anomaly: bool | None = None) -> Item:
    return Item(f"{number:03d}", Path(f"{number}"), split, action=action, anomaly=anomaly)


@given(
    st.lists(st.tuples(st.sampled_from(["train", "test"]), st.sampled_from("abc")), max_size=40),
    st.integers(1, 9),
)
def test_a_cut_is_even_over_classes_and_keeps_the_order(rows: list[tuple[str, str]], limit: int) -> None:
    items = [item(i, split, action) for i, (split, action) in enumerate(rows)]
    kept = evenly(items, limit)
    assert [one.id for one in kept] == sorted(one.id for one in kept)
    for split in ("train", "test"):
        have, whole = (Counter(i.action for i in part if i.split == split) for part in (kept, items))
        assert sum(have.values()) == min(limit, sum(whole.values()))
        unfilled = [action for action in whole if have[action] < whole[action]]
        for action in unfilled:  # nobody else may have more than one turn more
            assert all(have[action] >= have[other] - 1 for other in whole)


def test_a_cut_keeps_normal_and_unusual_videos() -> None:
    items = [item(i, "train", None, anomaly=i % 5 == 0) for i in range(40)]
    assert Counter(i.anomaly for i in evenly(items, 3, per_kind=True)) == {True: 3, False: 3}


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    shop, measure = Workshop(tmp_path, {}, TINY), Counting()
    first = shop.measured(measure, raw())
    assert first == shop.measured(measure, raw()) == Workshop(tmp_path, {}, TINY).measured(measure, raw())
    assert measure.taken == ["Raw"]


@pytest.mark.parametrize("change", ["seed", "scale", "subject", "measure", "encoder", "weights"])
def test_whatever_decides_a_result_makes_it_another(tmp_path: Path, change: str) -> None:
    shop, measure, subject = Workshop(tmp_path, {}, TINY), Counting(), raw()
    shop.measured(measure, subject)
    other = {
        "seed": replace(shop, seed=1),
        "scale": replace(shop, scale=replace(TINY, views=3)),
        "encoder": replace(shop, encoder_size=SIDE),
        "weights": replace(shop, weights={"resnet.50": "x"}),
    }.get(change, shop)
    subject = Subject("Raw", identity="another") if change == "subject" else subject
    again = Counting(measure.taken, value=0.7) if change == "measure" else measure
    other.measured(again, subject)
    assert len(measure.taken) == 2


def test_other_data_of_the_same_name_is_measured_again(tmp_path: Path, twin: Twin) -> None:
    measure = Counting(needs=("hmdb51",))
    shop = Workshop(tmp_path, {"hmdb51": twin("hmdb51")}, TINY)
    shop.measured(measure, raw())
    before = shop.fingerprint("hmdb51")
    smaller = Workshop(tmp_path, {"hmdb51": twin("hmdb51")}, replace(TINY, items=4))
    assert smaller.fingerprint("hmdb51") != before
    smaller.measured(measure, raw())
    assert len(measure.taken) == 2


def test_a_twin_makes_every_figure_one_of_a_twin(tmp_path: Path, twin: Twin) -> None:
    real = tmp_path / "real"
    real.mkdir()
    shop = Workshop(tmp_path / "out", {"vispr": real, "hmdb51": twin("hmdb51")}, TINY)
    assert shop.data(("vispr",)) == "real"
    assert shop.data(("hmdb51",)) == shop.data(("vispr", "hmdb51")) == "twin"
    assert shop.data(()) == "counted"
    assert (twin("hmdb51") / MARKER).is_file()


def test_missing_data_says_how_a_twin_is_made(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, {}, TINY)
    assert "veil data make vispr ROOT" in shop.lacks(Attributes())
    with pytest.raises(UsageError, match="--data ucf101:ROOT; `veil data make ucf101 ROOT`"):
        shop.dataset("ucf101")
    with pytest.raises(UsageError, match="no such folder; `veil data make ucf101"):
        Workshop(tmp_path, {"ucf101": tmp_path / "nowhere"}, TINY)
    with pytest.raises(UsageError, match="no dataset 'ucf'"):
        Workshop(tmp_path, {"ucf": tmp_path}, TINY)


def test_a_network_that_begins_from_weights_needs_them_at_full_size(tmp_path: Path) -> None:
    (tmp_path / "ucf101").mkdir()
    shop = Workshop(tmp_path, {"ucf101": tmp_path / "ucf101"}, PAPER)
    pretrained = Action("ucf101", "r2plus1d.18@kinetics")
    assert "--weights r2plus1d.18@kinetics=FILE" in shop.lacks(pretrained)
    given_ = replace(shop, weights={"r2plus1d.18@kinetics": "k.safetensors"})
    assert given_.lacks(pretrained) == ""
    assert given_.scale.stand_in(pretrained.model, given_.weights).start == "k.safetensors"
    assert replace(shop, scale=TINY).lacks(pretrained) == ""


def test_a_stand_in_is_named_in_the_cell(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, {}, TINY)
    assert Attributes(model="resnet.152").about(shop) == "tiny instead of resnet.152"
    assert Attributes(model="resnet.152").about(replace(shop, scale=PAPER)) == ""
    assert shop.reduced(Attributes(model="resnet.152")) == shop.reduced(
        Attributes(model="resnet.18", size=224)
    )
    assert shop.reduced(Attributes(model="resnet.18@imagenet")) != shop.reduced(Attributes(model="resnet.18"))


def test_an_unknown_size_is_named() -> None:
    with pytest.raises(UsageError, match="tiny, small, paper"):
        scale("huge")


def test_features_of_a_latent_subject_are_its_own(shop: Workshop, latent_run: Path) -> None:
    plain, hidden = (shop.features("hmdb51", who, "test") for who in (raw(), from_run(str(latent_run))))
    assert [e.item.id for e in plain.items()] == [e.item.id for e in hidden.items()]
    assert plain.store.encoder["hash"] != hidden.store.encoder["hash"]
    with pytest.raises(UsageError, match="looks at pictures"):
        shop.clips("hmdb51", from_run(str(latent_run)), "test")


def test_frames_of_pa_hmdb51_carry_the_labels_of_their_own_moment(shop: Workshop, twin: Twin) -> None:
    from videoveil.data.pa_hmdb51 import frame_labels

    own = replace(shop, roots={"pa-hmdb51": twin("pa-hmdb51")})
    source = own.features("pa-hmdb51", raw(), "test")
    names = ("a4_gender", "a65_rel_social", "a9_face_complete")
    x, y = frame_rows(source, names, "splavu")
    expected = []
    for entry in sorted(source.items(), key=lambda one: one.item.id):
        stored = source.store.read(entry)
        assert stored.static_frames is not None
        for frame in stored.static_frames.tolist():
            known = frame_labels(entry.item, frame, "splavu")
            if known is not None:
                expected.append((known["a4_gender"], known["a9_face_complete"]))
    assert len(x) == len(y) == len(expected) > 10
    assert [(int(a), int(b)) for a, _, b in y] == expected
    assert all(value != value for value in y[:, 1])  # PA-HMDB51 does not know it: NaN


def test_a_probe_on_features_beats_a_guess(shop: Workshop) -> None:
    found = shop.measured(ActionProbe("hmdb51"), raw())["top1"]
    assert found.value is not None
    assert found.chance is not None
    assert found.value > found.chance
