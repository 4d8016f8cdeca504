from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocols.conftest import SIDE, Twin
from videoveil.data import registry
from videoveil.data.records import AttributeSpan, Dataset, FrameSpan, Item
from videoveil.data.twins.plan import MARKER
from videoveil.errors import UsageError
from videoveil.protocols.base import Reading
from videoveil.protocols.measures import (
    Action,
    ActionProbe,
    Attributes,
    Detection,
    FeatureAttributes,
    GenderGap,
    PixelAnomaly,
    frame_rows,
)
from videoveil.protocols.scales import PAPER, TINY, scale
from videoveil.protocols.subjects import Subject, from_run, raw
from videoveil.protocols.workshop import Workshop, evenly


@dataclass(frozen=True)
class Counting:
    """Notes every time it is taken."""

    taken: list[str] = field(default_factory=list, compare=False, repr=False)
    needs: tuple[str, ...] = ()
    value: float = 0.5

    def about(self, workshop: Workshop, subject: Subject) -> str:
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


# a dataset, and of one of its items something else than the dataset says
RELABELLED: dict[str, Callable[[Item], Item]] = {
    "toyota-smarthome": lambda item: replace(item, gender="male" if item.gender == "female" else "female"),
    "vispr": lambda item: replace(item, attributes={k: 1 - v for k, v in (item.attributes or {}).items()}),
    "pa-hmdb51": lambda item: replace(item, attribute_spans=item.attribute_spans[:-1]),
    "vphmdb": lambda item: replace(item, attributes={k: 1 - v for k, v in (item.attributes or {}).items()}),
    "hmdb51": lambda item: replace(item, action="another"),
    "ucf-crime": lambda item: replace(item, anomaly=not item.anomaly, anomaly_spans=()),
    "casia-b": lambda item: replace(item, subject="another"),
}


@pytest.mark.parametrize("name", list(RELABELLED))
def test_other_labels_of_the_same_files_are_measured_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = tmp_path / "a.avi"
    video.write_bytes(b"the same")
    span = AttributeSpan(0, 9, {"gender": (1,)})
    item = Item("a", video, "test", action="run", attributes={"a4_gender": 1}, attribute_spans=(span,))
    item = replace(item, anomaly=True, anomaly_spans=(FrameSpan(0, 3, "Fire"),), subject="1", gender="female")
    measure, said = Counting(needs=(name,)), item
    monkeypatch.setattr(registry, "load", lambda *_: Dataset(name, tmp_path, (said,), ("run", "another")))
    keys = [Workshop(tmp_path, {name: tmp_path}, TINY).key(measure, raw())]
    keys.append(Workshop(tmp_path, {name: tmp_path}, TINY).key(measure, raw()))
    said = RELABELLED[name](item)
    changed = Workshop(tmp_path, {name: tmp_path}, TINY)
    assert keys[0] == keys[1] != changed.key(measure, raw())
    assert changed.run_folder(measure, raw()).name != keys[0]  # what was trained is not loaded again either


def test_exchanged_genders_of_smarthome_give_another_cell(tmp_path: Path, twin: Twin) -> None:
    own = tmp_path / "smarthome"
    shutil.copytree(twin("toyota-smarthome"), own)
    before = Workshop(tmp_path, {"toyota-smarthome": own}, TINY).key(GenderGap("toyota-smarthome"), raw())
    genders = json.loads((own / "gender.json").read_text("utf-8"))
    other = {"female": "male", "male": "female"}
    exchanged = {person: other[gender] for person, gender in genders.items()}
    (own / "gender.json").write_text(json.dumps(exchanged), encoding="utf-8")
    after = Workshop(tmp_path, {"toyota-smarthome": own}, TINY).key(GenderGap("toyota-smarthome"), raw())
    assert before != after


def test_labels_that_only_an_option_loads_count_too(tmp_path: Path, twin: Twin) -> None:
    own = tmp_path / "vispr"
    shutil.copytree(twin("vispr"), own)
    known, novel = Attributes(), Attributes(attributes="vispr2")
    shop = Workshop(tmp_path, {"vispr": own}, TINY)
    before = [shop.key(one, raw()) for one in (known, novel)]
    for path in own.rglob("*.json"):
        path.write_text(path.read_text("utf-8").replace('"a11_tattoo"', '"a0_safe"'), encoding="utf-8")
    shop = Workshop(tmp_path, {"vispr": own}, TINY)
    after = [shop.key(one, raw()) for one in (known, novel)]
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_other_weights_in_the_same_file_and_other_software_are_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, measure = tmp_path / "imagenet.safetensors", Counting()
    keys = []
    for content in (b"one", b"two"):
        weights.write_bytes(content)
        keys.append(Workshop(tmp_path, {}, TINY, weights={"resnet.50": str(weights)}).key(measure, raw()))
    monkeypatch.setattr("videoveil.__version__", "next")
    keys.append(Workshop(tmp_path, {}, TINY, weights={"resnet.50": str(weights)}).key(measure, raw()))
    assert len(set(keys)) == 3


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
    assert Attributes(model="resnet.152").about(shop, raw()) == "tiny instead of resnet.152"
    assert Attributes(model="resnet.152").about(replace(shop, scale=PAPER), raw()) == ""
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
    x, y, _ = frame_rows(source, names, "splavu")
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


def test_rows_with_a_network_of_their_own_name_it_and_others_the_default(tmp_path: Path) -> None:
    from videoveil.encoders import create
    from videoveil.encoders.checkpoints import save

    save(create("tiny", size=32), tmp_path / "utility.safetensors")
    own, plain = Subject("SPAct", encoder=tmp_path / "utility.safetensors"), raw()
    learned = Workshop(tmp_path, {}, TINY, encoder_size=SIDE, learned_encoder=True)
    for measure in (ActionProbe("hmdb51"), FeatureAttributes(), Detection(), PixelAnomaly(), GenderGap()):
        assert measure.about(learned, own).startswith("features of tiny, trained with SPAct")
        assert measure.about(learned, plain).startswith("features of tiny")
        assert "trained with" not in measure.about(learned, plain)
        assert "trained with" not in measure.about(replace(learned, learned_encoder=False), own)
    assert learned.encoder_mark(own) != learned.encoder_mark(plain)
    assert learned.encoder_facts(own) == {
        "name": "tiny",
        "hash": learned.encoder_of(own).content_hash(),
        "trained_with": "SPAct",
    }
    assert "trained_with" not in learned.encoder_facts(plain)


def test_videos_of_one_person_or_film_belong_together_as_in_audits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = (
        replace(item(1, "test", "run"), subject="P1"),
        replace(item(2, "test", "run"), extra={"source": "film"}),
        replace(item(3, "test", "walk"), extra={"source": "film"}),
        item(4, "test", "walk"),
    )
    monkeypatch.setattr(registry, "load", lambda *_: Dataset("hmdb51", tmp_path, items))
    shop = Workshop(tmp_path, {"hmdb51": tmp_path}, TINY)
    found = shop.people(("hmdb51",))
    assert found == {"001": "P1", "002": "film", "003": "film"}
    assert shop.people(("hmdb51",)) is found  # every cell holds it
