"""Pickles of strangers: labels come out, code never runs."""

from __future__ import annotations

import os
import pickle
import pickletools
import struct
import subprocess
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import quick
from videoveil.data import safe_pickle
from videoveil.data.safe_pickle import dump_labels, load_labels
from videoveil.errors import AnnotationError, UnsafePickle

LABELS = {
    "2017_00000001": np.array([1.0, 0, 1, 0, 0, 0, 1]),
    "Run/v_Run_g01_c01.mp4": np.array([[1, 0, 1, 0, 1]], dtype=np.int64),
    "scalar": np.float32(0.5),
    "flag": np.array([True, False]),
    "big-endian": np.arange(3, dtype=">i2"),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "slice": np.arange(10)[::3],
    "nothing": np.zeros((0, 7)),
    "no axes": np.array(3),
    "words": np.array(["é", "bc"]),
    "bytes": np.array([b"\xff", b"b"]),
}


class Call:
    """Pickles as a call of any function."""

    def __init__(self, function: Any, *arguments: Any, state: Any = None):
        self.parts = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self) -> Any:
        return self.parts


def stored(folder: Path, data: bytes) -> Path:
    path = folder / "labels.pkl"
    path.write_bytes(data)
    return path


def old_names(data: bytes) -> bytes:
    """The same pickle as numpy before version 2 would have written it (protocols below 4, where names are lines)."""
    return data.replace(b"numpy._core.", b"numpy.core.")


def same(a: Any, b: Any) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype.newbyteorder("=") and bool((a == b).all())


# --- what may come in --------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(6))
def test_label_dicts_of_every_protocol_load(tmp_path: Path, protocol: int) -> None:
    found = load_labels(stored(tmp_path, pickle.dumps(LABELS, protocol=protocol)))
    assert list(found) == list(LABELS)
    assert all(same(found[name], LABELS[name]) for name in LABELS)


@pytest.mark.parametrize("protocol", range(4))
def test_label_dicts_of_old_numpy_load(tmp_path: Path, protocol: int) -> None:
    data = old_names(pickle.dumps(LABELS, protocol=protocol))
    assert b"numpy.core.multiarray" in data
    assert b"numpy._core" not in data
    found = load_labels(stored(tmp_path, data))
    assert all(same(found[name], LABELS[name]) for name in LABELS)


@pytest.mark.parametrize("protocol", [4, 5])
def test_names_of_old_numpy_load_in_new_protocols(tmp_path: Path, protocol: int) -> None:
    """Names carry their length there."""
    data = pickle.dumps({"a": np.arange(7.0)}, protocol=protocol)
    for new, old in (
        (b"numpy._core.multiarray", b"numpy.core.multiarray"),
        (b"numpy._core.numeric", b"numpy.core.numeric"),
    ):
        data = data.replace(bytes([len(new)]) + new, bytes([len(old)]) + old)
    data = data[:2] + data[11:]  # the frame's length has changed; frames are optional
    assert b"numpy._core" not in data
    assert same(load_labels(stored(tmp_path, data))["a"], np.arange(7.0))


def test_arrays_of_python_2_load(tmp_path: Path) -> None:
    """Python 2 wrote names and bytes alike as 8-bit strings."""
    rows = np.array([1, 0, 255, 128, 7], dtype="<i8")
    raw = rows.tobytes()
    data = (
        b"\x80\x02}U\x06v_name"
        + b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x05\x85cnumpy\ndtype\nU\x02i8K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        + b"U"
        + bytes([len(raw)])
        + raw
        + b"tbs."
    )
    assert same(load_labels(stored(tmp_path, data))["v_name"], rows)


def test_plain_containers_load_and_shared_parts_stay_shared(tmp_path: Path) -> None:
    shared = np.arange(3)
    value = {"a": [1, 2.5, None, True, "é", b"x"], "b": (shared, [shared]), 3: {"deep": {"er": ()}}}
    found = load_labels(stored(tmp_path, pickle.dumps(value, protocol=4)))
    assert found["a"] == value["a"]
    assert found[3] == value[3]
    assert found["b"][0] is found["b"][1][0]


def test_loaded_arrays_are_writable_copies_in_native_order(tmp_path: Path) -> None:
    found = load_labels(stored(tmp_path, pickle.dumps(LABELS, protocol=5)))
    for name in ("big-endian", "fortran", "slice"):
        assert found[name].flags.writeable
        assert found[name].flags.c_contiguous
        assert found[name].dtype.isnative


@quick
@given(
    st.dictionaries(
        st.text(max_size=8),
        st.lists(st.floats(width=32) | st.integers(-5, 5), max_size=6).map(np.array),
        max_size=4,
    ),
    st.integers(0, 5),
)
def test_numeric_labels_round_trip(
    tmp_path_factory: pytest.TempPathFactory, labels: Any, protocol: int
) -> None:
    found = load_labels(stored(tmp_path_factory.mktemp("p"), pickle.dumps(labels, protocol=protocol)))
    assert list(found) == list(labels)
    assert all(np.array_equal(found[name], labels[name], equal_nan=True) for name in labels)


def test_labels_are_written_as_the_other_projects_do(tmp_path: Path) -> None:
    labels = {"2017_1": np.ones(7), "2017_2": np.zeros(7)}
    dump_labels(tmp_path / "out.pkl", labels)
    assert all(same(load_labels(tmp_path / "out.pkl")[name], labels[name]) for name in labels)
    assert list(pickle.loads((tmp_path / "out.pkl").read_bytes())) == list(labels)  # by anybody's unpickler


# --- what may not ------------------------------------------------------------------------------------------


def evil(witness: Path) -> dict[str, tuple[Any, str]]:
    """Pickled values that would make `witness`, and the name the refusal must give."""
    touch = f"touch {witness}"
    code = f"open({str(witness)!r}, 'w')"
    return {
        "shell": (Call(os.system, touch), "posix.system"),
        "process": (Call(subprocess.Popen, ["touch", str(witness)]), "Popen"),
        "eval": (Call(eval, code), "eval"),
        "exec": (Call(exec, code), "exec"),
        "attribute": (Call(getattr, "", "join"), "getattr"),
        "import": (Call(__import__, "os"), "__import__"),
        "file": (Call(open, str(witness), "w"), "open"),
        "in a dict": ({"a": [1, {"b": (Call(os.system, touch),)}]}, "posix.system"),
        "as a key": ({Call(os.system, touch): 1}, "posix.system"),
        "as an argument": (Call(np.dtype, Call(os.system, touch)), "posix.system"),
        "as a state": (Call(np.dtype, "f8", state=(3, "<", Call(os.system, touch))), "posix.system"),
        "in an object array": ({"a": np.array([Call(os.system, touch)], dtype=object)}, "O8"),
        "a container": (OrderedDict(a=1), "collections.OrderedDict"),
        "a path": (witness, "pathlib"),
        "numpy's loader": (Call(np.load, str(witness)), "load"),
    }


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
@pytest.mark.parametrize("kind", evil(Path("x")))
def test_code_in_a_pickle_never_runs_and_is_named(tmp_path: Path, kind: str, protocol: int) -> None:
    witness = tmp_path / "witness"
    value, name = evil(witness)[kind]
    path = stored(tmp_path, pickle.dumps(value, protocol=protocol))
    with pytest.raises(UnsafePickle) as caught:
        load_labels(path)
    assert not witness.exists()
    assert name in str(caught.value)
    assert str(path) in str(caught.value)


def test_the_attacks_above_do_work_on_an_unpickler_that_trusts(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    pickle.loads(pickle.dumps(evil(witness)["in a dict"][0]))
    assert witness.exists()


@pytest.mark.parametrize(
    ("data", "reason"),
    {
        "old-style instance": (b"(S'touch x'\nios\nsystem\n.", "os.system"),
        "old-style object": (b"(cos\nsystem\nS'touch x'\no.", "os.system"),
        "dotted name": (b"\x80\x04\x8c\x05numpy\x8c\x11ndarray.__class__\x93.", "ndarray.__class__"),
        "module inside an allowed one": (b"cnumpy\nos.system\n(S'touch x'\ntR.", "numpy.os.system"),
        "name built at run time": (b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94h\x00h\x01\x93.", "os.system"),
        "name through the memo": (
            b"\x80\x04\x8c\x06system\x940\x8c\x02osh\x00\x93(\x8c\x01xtR.",
            "os.system",
        ),
        "persistent id, text": (b"Psecret\n.", "secret"),
        "persistent id, object": (b"S'secret'\nQ.", "secret"),
        "registered extension": (b"\x80\x02\x82\x01.", "labels.pkl"),
        "state on an allowed name": (b"cnumpy\ndtype\n(dS'call'\ncnumpy\nndarray\nsb.", "changes a function"),
        "state with slots on a name": (b"cnumpy\ndtype\n(N(dS'call'\nI1\nstb.", "changes a function"),
        "new object of a name": (b"\x80\x02cnumpy\nndarray\n)\x81.", "labels.pkl"),
        "an array by its class": (b"cnumpy\nndarray\n((I3\ntI0\ntR.", "unusual"),
        "other codecs": (b"c_codecs\nencode\n(Vabc\nVrot13\ntR.", "rot13"),
        "a name as a value": (b"cnumpy\ndtype\n.", "holds a function"),
        "an object type": (b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR.", "O8"),
        "a type of fields": (
            b"cnumpy\ndtype\n(S'f8'\nI0\nI1\ntR(I3\nS'|'\nN(S'a'\nt(dI8\nI1\nI0\ntb.",
            "compound",
        ),
        "a type alone": (b"cnumpy\ndtype\n(S'f8'\nI0\nI1\ntR.", "holds a type"),
        "a giant memo": (b"]r\xff\xff\xff\x7f.", "numbers its objects"),
        "a giant memo, text": (b"(lp99999999999\n.", "numbers its objects"),
        "a list in itself": (b"]q\x00h\x00a.", "contains itself"),
        "an empty file": (b"", "labels.pkl"),
        "no pickle": (b"2017_1 1 0 1\n", "labels.pkl"),
        "an archive": (b"PK\x03\x04" + bytes(40), "labels.pkl"),
    }.values(),
    ids=lambda value: None,
)
def test_handmade_pickles_are_refused_with_a_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(UnsafePickle, match=reason):
        load_labels(stored(tmp_path, data))


def array_pickle(shape: Any, data: Any, kind: str = "f8") -> bytes:
    """An array's pickle with any shape and content."""
    value = Call(
        np._core.multiarray._reconstruct,
        np.ndarray,
        (0,),
        b"b",
        state=(1, shape, np.dtype(kind), False, data),
    )
    return pickle.dumps({"a": value}, protocol=4)


@pytest.mark.parametrize("shape", [(3,), (1,), (-2,), (2**62,), (2.0,), ("2",), 2, (2, 0), (True, 2)])
def test_arrays_whose_shape_is_not_their_bytes_are_refused(tmp_path: Path, shape: Any) -> None:
    with pytest.raises(UnsafePickle):
        load_labels(stored(tmp_path, array_pickle(shape, bytes(16))))


def test_the_refusal_says_how_many_bytes_there_are(tmp_path: Path) -> None:
    with pytest.raises(UnsafePickle, match=r"an array of 16 bytes for the shape \(3,\)"):
        load_labels(stored(tmp_path, array_pickle((3,), bytes(16))))


def test_an_array_whose_shape_is_its_bytes_is_not(tmp_path: Path) -> None:
    found = load_labels(stored(tmp_path, array_pickle((2,), struct.pack("<2d", 1, 2))))
    assert found["a"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("data", [[1, 2], None, 5, "Ā" * 16])
def test_arrays_of_anything_but_bytes_are_refused(tmp_path: Path, data: Any) -> None:
    with pytest.raises(UnsafePickle):
        load_labels(stored(tmp_path, array_pickle((2,), data)))


@pytest.mark.parametrize("protocol", range(6))
def test_object_arrays_are_refused_even_when_harmless(tmp_path: Path, protocol: int) -> None:
    data = pickle.dumps({"a": np.array(["x", 1], dtype=object)}, protocol=protocol)
    with pytest.raises(UnsafePickle, match="type 'O8'"):
        load_labels(stored(tmp_path, data))


def test_record_arrays_are_refused(tmp_path: Path) -> None:
    data = pickle.dumps(np.zeros(2, dtype=[("a", "i4"), ("b", "O")]))
    with pytest.raises(UnsafePickle, match="type 'V12'"):
        load_labels(stored(tmp_path, data))


def test_a_small_file_cannot_grow_without_end(tmp_path: Path) -> None:
    value: Any = []
    for _ in range(30):
        value = [value, value]  # 2³⁰ leaves when walked naively
    found = load_labels(stored(tmp_path, pickle.dumps(value, protocol=4)))
    assert found[0] is found[1]
    for _ in range(10):
        value = [value]
    with pytest.raises(UnsafePickle, match="32 deep"):
        load_labels(stored(tmp_path, pickle.dumps(value, protocol=4)))


def test_a_file_too_large_for_labels_is_not_even_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safe_pickle, "MAX_BYTES", 100)
    with pytest.raises(UnsafePickle, match="more than the 100"):
        load_labels(stored(tmp_path, pickle.dumps(LABELS)))


def test_a_file_that_is_not_there_is_an_annotation_error(tmp_path: Path) -> None:
    for path in (tmp_path / "none.pkl", tmp_path):
        with pytest.raises(AnnotationError, match="cannot be read"):
            load_labels(path)


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_truncated_files_are_errors_wherever_they_break_off(tmp_path: Path, protocol: int) -> None:
    data = pickle.dumps({"a": np.arange(3.0), "b": [1, "x"]}, protocol=protocol)
    for length in range(len(data)):
        with pytest.raises(UnsafePickle):
            load_labels(stored(tmp_path, data[:length]))


@quick
@given(st.binary(max_size=80), st.integers(0, 300), st.integers(0, 3))
def test_random_damage_gives_plain_data_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, place: int, protocol: int
) -> None:
    data = pickle.dumps({"a": np.arange(3.0), "b": [1, "x"]}, protocol=protocol)
    damaged = data[:place] + noise + data[place + len(noise) :]
    path = stored(tmp_path_factory.mktemp("p"), damaged)
    try:
        pending = [load_labels(path)]
    except UnsafePickle:
        return
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += [*value, *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            pending += value
        else:
            assert value is None or isinstance(value, str | bytes | int | float | np.generic | np.ndarray)


def test_the_handmade_opcodes_mean_what_they_should() -> None:
    names = [code.name for code, _, _ in pickletools.genops(b"]q\x00h\x00a.")]
    assert names == ["EMPTY_LIST", "BINPUT", "BINGET", "APPEND", "STOP"]
