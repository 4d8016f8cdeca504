"""Foreign files are read or refused, and never run."""

from __future__ import annotations

import collections
import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from videoveil.encoders.foreign import pickled_globals, read_foreign
from videoveil.errors import CheckpointError

STATE = {"conv.weight": torch.arange(6.0).view(2, 3), "conv.bias": torch.tensor([1.0, 2.0])}


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.marker}",)


def same(state: dict[str, torch.Tensor]) -> bool:
    return set(state) == set(STATE) and all(torch.equal(state[key], STATE[key]) for key in STATE)


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize(
    ("content", "wrapper"),
    [
        (STATE, ""),
        (collections.OrderedDict(STATE), ""),
        ({"state_dict": STATE, "epoch": 3, "arch": "r3d"}, "state_dict"),
        ({"model": {"module": STATE}, "optimizer": {"lr": 0.1}}, "model.module"),
        ({"model_state_dict": {k: torch.nn.Parameter(v) for k, v in STATE.items()}}, "model_state_dict"),
    ],
)
def test_torch_files_old_and_new_give_their_tensors_and_wrapper(
    tmp_path: Path, content: Any, wrapper: str, new: bool
) -> None:
    path = tmp_path / "w.pt"
    torch.save(content, path, _use_new_zipfile_serialization=new)
    state, found = read_foreign(path)
    assert same(state)
    assert found == wrapper


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_arrays_are_read(tmp_path: Path, protocol: int) -> None:
    arrays = {key: value.numpy() for key, value in STATE.items()}
    (tmp_path / "w.pkl").write_bytes(pickle.dumps({"blobs": {**arrays, "note": "text"}}, protocol))
    state, wrapper = read_foreign(tmp_path / "w.pkl")
    assert same(state)
    assert wrapper == "blobs"


def test_arrays_pickled_by_python_2_are_read(tmp_path: Path) -> None:
    """Python 2 writes byte strings with the opcodes of its own string type."""
    data = np.arange(3, dtype="<f4")
    raw = b"".join(
        [
            b"\x80\x02}U\x07conv1_wcnumpy.core.multiarray\n_reconstruct\n",
            b"cnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01K\x03\x85cnumpy\ndtype\nU\x02f4K\x00K\x01\x87R(K\x03U\x01<",
            b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x0c",
            data.tobytes(),
            b"tbs.",
        ]
    )
    (tmp_path / "w.pkl").write_bytes(raw)
    state, _ = read_foreign(tmp_path / "w.pkl")
    assert torch.equal(state["conv1_w"], torch.arange(3.0))


@pytest.mark.parametrize("how", ["zip", "legacy", "pickle"])
def test_pickled_code_is_refused_by_name_and_does_not_run(tmp_path: Path, how: str) -> None:
    path, marker = tmp_path / "w.pt", tmp_path / "ran"
    content = {"state_dict": {**STATE, "x": Evil(marker)}}
    if how == "pickle":
        path.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=how == "zip")
    with pytest.raises(CheckpointError, match=r"pickled code and was not opened\n.*\n  (posix|nt)\.system"):
        read_foreign(path)
    assert not marker.exists()
    os.system(f"touch {marker}")  # the command would have worked
    assert marker.exists()


@pytest.mark.parametrize("new", [True, False])
def test_a_whole_pickled_network_is_refused_by_the_names_of_its_classes(tmp_path: Path, new: bool) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "w.pt", _use_new_zipfile_serialization=new)
    with pytest.raises(CheckpointError, match=r"torch\.nn\.modules\.linear\.Linear"):
        read_foreign(tmp_path / "w.pt")


def test_code_hidden_behind_an_allowed_looking_name_is_still_not_run(tmp_path: Path) -> None:
    """Listing is only the first door: the readers behind it refuse on their own."""
    marker = tmp_path / "ran"
    command = f"touch {marker}".encode()
    # The last two strings say numpy.dtype; two POPs take them away, and the machine finds os.system below.
    hidden = b"\x80\x04\x8c\x02os\x8c\x06system\x8c\x05numpy\x8c\x05dtype00\x93\x8c"
    (tmp_path / "w.pkl").write_bytes(hidden + bytes([len(command)]) + command + b"\x85R.")
    with pytest.raises(CheckpointError, match=r"os\.system is not allowed"):
        read_foreign(tmp_path / "w.pkl")
    assert not marker.exists()


def test_torchscript_archives_are_refused_as_code(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    torch.save(STATE, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("w/code/__torch__.py", "import os")
    with pytest.raises(
        CheckpointError, match=r"TorchScript archive, which is code\n.*\n  w/code/__torch__\.py"
    ):
        read_foreign(path)


@pytest.mark.parametrize("new", [True, False])
def test_truncated_files_are_refused_at_every_length(tmp_path: Path, new: bool) -> None:
    path = tmp_path / "w.pt"
    torch.save(STATE, path, _use_new_zipfile_serialization=new)
    whole = path.read_bytes()
    for length in [*range(0, len(whole), max(len(whole) // 40, 1)), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            read_foreign(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200), start=st.sampled_from([b"", b"PK\x03\x04", b"\x80\x02", b"\x80\x04}"]))
def test_no_bytes_whatsoever_give_anything_but_a_checkpoint_error(
    tmp_path: Path, data: bytes, start: bytes
) -> None:
    path = tmp_path / "w.bin"
    path.write_bytes(start + data)
    with pytest.raises(CheckpointError):
        read_foreign(path)


def test_files_without_a_state_dictionary_say_what_they_hold(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    torch.save([torch.zeros(1)], path)
    with pytest.raises(CheckpointError, match="holds a list, not a state dictionary"):
        read_foreign(path)
    torch.save({"epoch": 3}, path)
    with pytest.raises(CheckpointError, match="no tensors inside; its keys are epoch"):
        read_foreign(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(
        CheckpointError, match=r"an archive without a checkpoint inside; it holds readme\.txt"
    ):
        read_foreign(path)
    with pytest.raises(CheckpointError, match="no such file"):
        read_foreign(tmp_path / "absent.pt")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_lists_its_globals(protocol: int) -> None:
    content = [collections.Counter("ab"), collections.Counter("c"), {"key": Path("x")}]
    found = set(pickled_globals(io.BytesIO(pickle.dumps(content, protocol))))
    assert "collections.Counter" in found
    assert any(name.startswith("pathlib") for name in found)
