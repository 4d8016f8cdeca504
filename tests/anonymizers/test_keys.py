"""Keyed noise: normal, the same for key and content, other for any other, and the key never shows."""

from __future__ import annotations

import copy
import hashlib
import hmac
import math
import pickle
import stat
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from videoveil.anonymizers import NoiseKey
from videoveil.anonymizers.keys import FreshNoise, KeyedNoise, clip_contents, normals, row_contents
from videoveil.errors import UsageError

SECRET = bytes(range(32))
KEY = NoiseKey(SECRET)


def test_golden_numbers() -> None:
    """These must never change: features that were exported under a key could not be made again."""
    assert KEY.fingerprint() == "dc0ca1b689fa477f"
    assert KEY.seed("stage 0 clip", b"content").hex()[:16] == "06fd0dfca28bca84"
    found = normals(KEY.seed("stage 0 clip", b"content"), 3)
    assert found == pytest.approx([0.13301387532898484, -0.130340000162631, -0.1888227122224366], abs=1e-12)


def test_the_derivation_equals_a_slow_twin() -> None:
    digests = [hashlib.sha256(part).digest() for part in (b"label", b"content")]
    seed = hmac.new(SECRET, b"videoveil latent noise 1\0" + b"".join(digests), "sha256").digest()
    stream = struct.unpack("<6Q", hashlib.shake_256(seed).digest(48))
    u = [((word >> 11) + 0.5) / 2**53 for word in stream]
    lengths = [math.sqrt(-2 * math.log(value)) for value in u[:3]]
    angles = [2 * math.pi * value for value in u[3:]]
    slow = [r * math.cos(a) for r, a in zip(lengths, angles)] + [
        r * math.sin(a) for r, a in zip(lengths, angles)
    ]
    assert normals(KEY.seed("label", b"content"), 5) == pytest.approx(slow[:5], abs=1e-12)


def test_numbers_are_normal_and_independent() -> None:
    rows = np.stack([normals(KEY.seed("x", bytes([i % 256, i // 256])), 101) for i in range(600)])
    assert stats.kstest(rows.ravel(), "norm").pvalue > 1e-3
    assert abs(np.corrcoef(rows[:, 0], rows[:, 100])[0, 1]) < 0.15  # both ends of a row
    assert abs(np.corrcoef(rows[:-1].ravel(), rows[1:].ravel())[0, 1]) < 0.02  # neighbouring rows


@given(st.binary(max_size=40), st.binary(max_size=40), st.text(max_size=5), st.text(max_size=5))
@settings(max_examples=60, deadline=None)
def test_a_seed_depends_on_label_and_content_and_not_on_where_one_ends(
    a: bytes, b: bytes, label: str, other: str
) -> None:
    assert (KEY.seed(label, a) == KEY.seed(other, b)) == ((label, a) == (other, b))
    assert KEY.seed(label, a) != NoiseKey(SECRET[::-1]).seed(label, a)


def test_noise_of_a_row_does_not_depend_on_its_place_or_company() -> None:
    contents = [b"a", b"b", b"c"]
    like = torch.zeros(3, 1, 7)
    whole = KeyedNoise(KEY, contents).draw(like, None, "n")
    for order in ([2, 0, 1], [1], [0, 2]):
        part = KeyedNoise(KEY, [contents[i] for i in order]).draw(like[order], None, "n")
        assert torch.equal(part, whole[order])
    assert not torch.equal(whole, KeyedNoise(KEY, contents).draw(like, None, "another stage"))


def test_noise_of_tokens_does_not_depend_on_padding() -> None:
    short = KeyedNoise(KEY, [b"a"]).draw(torch.zeros(1, 3, 5), None, "n")
    mask = torch.tensor([[True, True, False, True, False]])
    long = KeyedNoise(KEY, [b"a"]).draw(torch.zeros(1, 5, 5), mask, "n")
    assert torch.equal(long[mask], short[0])
    one = KeyedNoise(KEY, [b"a"]).draw(torch.zeros(1, 1, 5), None, "n")
    padded = KeyedNoise(KEY, [b"a"]).draw(torch.zeros(1, 2, 5), torch.tensor([[True, False]]), "n")
    assert torch.equal(padded[:, :1], one)


@pytest.mark.parametrize("keyed", [True, False])
def test_neither_the_mean_of_tokens_nor_their_difference_is_without_noise(keyed: bool) -> None:
    like = torch.zeros(300, 8, 40)
    contents = [bytes([i % 256, i // 256]) for i in range(300)]
    source = KeyedNoise(KEY, contents) if keyed else FreshNoise(torch.Generator().manual_seed(0))
    noise = source.draw(like, None, "n")
    assert float(noise.mean(1).var()) == pytest.approx(1 + 1 / 8, rel=0.05)
    assert float((noise[:, 0] - noise[:, 1]).var()) == pytest.approx(2, rel=0.05)
    alone = source.draw(like[:, :1], None, "n")
    assert float(alone.var()) == pytest.approx(1, rel=0.05)


def test_fresh_noise_differs_from_call_to_call() -> None:
    source = FreshNoise()
    assert not torch.equal(
        source.draw(torch.zeros(2, 1, 3), None, "n"), source.draw(torch.zeros(2, 1, 3), None, "n")
    )


def test_row_contents_are_the_real_tokens_with_one_zero() -> None:
    x = torch.tensor([[[0.0, 1.0], [2.0, 3.0]], [[-0.0, 1.0], [9.0, 9.0]]])
    mask = torch.tensor([[True, False], [True, False]])
    first, second = row_contents(x, mask)
    assert first == second == np.array([0, 1], "<f4").tobytes()
    assert row_contents(x)[0] == np.array([0, 1, 2, 3], "<f4").tobytes()
    assert row_contents(x.half())[0] == row_contents(x)[0]


def test_a_key_survives_its_file_which_only_its_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "noise.key"
    key = NoiseKey.generate()
    key.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert NoiseKey.load(path).seed("a", b"b") == key.seed("a", b"b")
    with pytest.raises(UsageError, match="exists"):
        KEY.save(path)
    assert NoiseKey.load(path).fingerprint() == key.fingerprint()
    with pytest.raises(UsageError, match="its folder does not exist"):
        KEY.save(tmp_path / "mistyped" / "noise.key")


def test_damaged_keys_are_refused_without_being_shown(tmp_path: Path) -> None:
    path = tmp_path / "noise.key"
    for text in ("secret?", "00" * 8, ""):
        path.write_text(text)
        with pytest.raises(UsageError) as caught:
            NoiseKey.load(path)
        assert "secret?" not in str(caught.value)
    with pytest.raises(UsageError, match=r"nowhere.*not a readable noise key"):
        NoiseKey.load(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="at least 16 bytes"):
        NoiseKey(b"short")


def test_a_key_does_not_show_and_can_be_copied_in_memory() -> None:
    shown = f"{KEY!r} {KEY} {[KEY]}"
    assert SECRET.hex() not in shown
    assert str(SECRET) not in shown
    assert KEY.fingerprint() in shown
    for twin in (copy.deepcopy(KEY), pickle.loads(pickle.dumps(KEY))):
        assert twin.seed("a", b"b") == KEY.seed("a", b"b")
    assert NoiseKey.generate().fingerprint() != NoiseKey.generate().fingerprint()


# --- names of clips ---------------------------------------------------------------------------------------------


def test_a_clip_is_named_by_its_own_pixels_whatever_comes_with_it_and_however_they_are_written() -> None:
    pixels = torch.randint(
        0, 256, (5, 3, 2, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    names = clip_contents(pixels)
    assert len(set(names)) == 5
    assert clip_contents(pixels[[3, 1]]) == [names[3], names[1]]
    for floats in (pixels / 255, (pixels / 255).double(), pixels / 255 + 1e-4 * (pixels < 200)):
        assert clip_contents(floats) == names
    mixed = pixels / 255
    mixed[0] = 3 * mixed[0] - 1  # one clip out of [0, 1] does not change how another one is named
    assert clip_contents(mixed)[1:] == names[1:]
    assert clip_contents(mixed)[0] != names[0]
    assert clip_contents(pixels.flatten(1)) != names  # the same bytes in another shape
    assert clip_contents(-torch.zeros(1, 3) - 5 * torch.eye(1, 3)) == clip_contents(-5 * torch.eye(1, 3))
