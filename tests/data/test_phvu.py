"""P-HVU: the selection rule against a slow twin, and the grammar of the lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import PATH, nasty_text, quick, touch, write
from videoveil.data.phvu import CATEGORIES, KINDS, Tagged, load, parse_categories, parse_rows, select
from videoveil.data.reading import Complaints
from videoveil.errors import AnnotationError, MissingItems

WORDS = {
    "run": "action",
    "jump": "action",
    "ball": "object",
    "tree": "object",
    "park": "scene",
    "sea": "scene",
}
KNOWN = {**WORDS, "red": "attribute", "sport": "concept", "party": "event"}
HEAD = "Tags,youtube_id,time_start,time_end\n"
TREE = {
    "HVU_Tags_Categories_V1.0.csv": "Tag,Category\r\n" + "".join(f"{t},{c}\r\n" for t, c in KNOWN.items()),
    "HVU_Val_V1.0.csv": HEAD + "run|ball|park|red,aaaaaaaaaaa,0.0,10.0\nrun|ball,bbbbbbbbbbb,1.0,11.0\n",
    "HVU_Train_V1.0.csv": HEAD
    + "run|jump|ball|park,ccccccccccc,9.6,19.6\njump|tree|sea,ddddddddddd,3,13\nball|park,eeeeeeeeeee,3,13\n",
}


def test_items_have_three_kinds_of_tags_known_to_the_test_set(tmp_path: Path) -> None:
    names = ["ccccccccccc_000010_000020", "ddddddddddd_000003_000013", "aaaaaaaaaaa_000000_000010"]
    found = load(touch(write(tmp_path, TREE), *(f"videos/{name}.mp4" for name in names)))
    assert [(i.id, i.split, i.actions, i.objects, i.scenes) for i in found] == [
        (names[0], "train", ("run",), ("ball",), ("park",)),
        (names[1], "train", (), (), ()),
        (names[2], "test", ("run",), ("ball",), ("park",)),
    ]
    assert found.classes == ("run",)
    assert found.items[0].path == tmp_path / "videos" / f"{names[0]}.mp4"


tagged = st.lists(st.sets(st.sampled_from(sorted(KNOWN)), max_size=6), max_size=8)


def rows_of(tags: list[set[str]], name: str) -> list[tuple[int, dict[str, str]]]:
    return [
        (n + 2, {"Tags": "|".join(sorted(t)), "youtube_id": f"{name}{n}", "time_start": "1", "time_end": "2"})
        for n, t in enumerate(tags)
    ]


@quick
@given(tagged, tagged)
def test_the_selection_equals_a_slow_twin(train: list[set[str]], test: list[set[str]]) -> None:
    complaints = Complaints()
    fast_train, fast_test = select(
        parse_rows(rows_of(train, "a"), PATH, KNOWN, complaints),
        parse_rows(rows_of(test, "b"), PATH, KNOWN, complaints),
    )
    assert complaints.found == []

    def whole(tags: set[str]) -> bool:
        return all(any(KNOWN[tag] == kind for tag in tags) for kind in ("action", "object", "scene"))

    slow_test = {
        f"b{n}_000001_000002": {t for t in tags if t in WORDS} for n, tags in enumerate(test) if whole(tags)
    }
    seen = {tag for tags in slow_test.values() for tag in tags}
    slow_train = {
        f"a{n}_000001_000002": {t for t in tags if t in seen} for n, tags in enumerate(train) if whole(tags)
    }
    assert {row.stem: set().union(*row.tags.values()) for row in fast_test} == slow_test
    assert {row.stem: set().union(*row.tags.values()) for row in fast_train} == slow_train
    for row in (*fast_train, *fast_test):
        assert all(KNOWN[tag] == kind for kind in KINDS for tag in row.tags[kind])


def test_all_missing_videos_are_listed_or_skipped(tmp_path: Path) -> None:
    touch(write(tmp_path, TREE), "aaaaaaaaaaa_000000_000010.mkv")
    with pytest.raises(MissingItems, match="2 of 3") as caught:
        load(tmp_path)
    found = load(tmp_path, skip_bad=True)
    assert found.skipped == caught.value.offenders
    assert found.counts() == {"test": 1}


def test_all_mistakes_of_all_lists_are_in_one_error(tmp_path: Path) -> None:
    rows = "run|flying,a,1,2\nrun,a,x,2\nrun,a,1,inf\nrun,a,nan,2\nrun,,1,2\nrun,a,2,1\nrun,a\nrun,a,1,2\n"
    categories = str(TREE["HVU_Tags_Categories_V1.0.csv"]) + "cat,animal\r\n,action\r\n"
    write(tmp_path, {**TREE, "HVU_Train_V1.0.csv": HEAD + rows, "HVU_Tags_Categories_V1.0.csv": categories})
    with pytest.raises(AnnotationError, match="9 mistakes") as caught:
        load(tmp_path)
    assert [entry.split(": ")[0] for entry in caught.value.offenders] == [
        "HVU_Tags_Categories_V1.0.csv:11",
        "HVU_Tags_Categories_V1.0.csv:12",
        *(f"HVU_Train_V1.0.csv:{n}" for n in range(2, 9)),
    ]
    assert "tags without a category: flying" in str(caught.value)


def test_a_missing_list_is_an_error_that_names_it(tmp_path: Path) -> None:
    write(tmp_path, {name: text for name, text in TREE.items() if "Val" not in name})
    with pytest.raises(AnnotationError, match=r"HVU_Val_V1\.0\.csv: missing"):
        load(tmp_path)


@quick
@given(
    st.lists(
        st.fixed_dictionaries(dict.fromkeys(("Tags", "youtube_id", "time_start", "time_end"), nasty_text)),
        max_size=4,
    )
)
def test_any_row_becomes_a_video_or_a_complaint(rows: list[dict[str, str]]) -> None:
    complaints = Complaints()
    found: list[Tagged] = parse_rows(list(enumerate(rows, 2)), PATH, KNOWN, complaints)
    assert len(found) + len(complaints.found) == len(rows)


@quick
@given(
    st.lists(st.fixed_dictionaries({"Tag": nasty_text, "Category": nasty_text | st.sampled_from(CATEGORIES)}))
)
def test_any_category_row_is_known_or_a_complaint(rows: list[dict[str, str]]) -> None:
    complaints = Complaints()
    kinds = parse_categories(list(enumerate(rows, 2)), PATH, complaints)
    good = {row["Tag"] for row in rows if row["Tag"] and row["Category"] in CATEGORIES}
    assert set(kinds) == good
