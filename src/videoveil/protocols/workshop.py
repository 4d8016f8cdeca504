"""Where a protocol works: its data, its encoder, its scale and its memory of what has been measured.

OUT/cells/KEY.json     what a measure found; a cell that is there is not done again
OUT/cells/KEY.npz      what was said of every test item, for intervals; where a measure tells
OUT/runs/KEY/          tasks and attacks while they learn, so that a killed one goes on
CACHE/…                feature stores, by encoder, dataset and anonymizer; may be shared by evaluations

KEY changes with everything that decides a result: measure, subject, scale, seed, encoder, data with their labels, the
weights that networks begin from, and the version of this software.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import videoveil
from videoveil import files
from videoveil.data import registry, twins
from videoveil.data.owners import people
from videoveil.data.records import Dataset, Item
from videoveil.data.serial import item_to_json
from videoveil.data.twins.plan import MARKER
from videoveil.errors import UsageError
from videoveil.protocols.base import Data, Measure, Reading, Readings
from videoveil.protocols.scales import Scale
from videoveil.protocols.subjects import Subject

if TYPE_CHECKING:
    from videoveil.encoders import Encoder
    from videoveil.tasks.base import Clips, Features

Options = Mapping[str, Any]
LONG = ("thumos14", "ucf-crime", "xd-violence", "shanghaitech")  # untrimmed videos
WHOLE = ("ntu60", "casia-b", "toyota-smarthome")  # whose make-up is the point: never cut down
Say = Callable[[str], None]


@dataclass
class Workshop:
    """One evaluation: `roots` are the folders of datasets by name."""

    out: Path
    roots: Mapping[str, Path]
    scale: Scale
    seed: int = 0
    encoder_name: str = "tiny"
    encoder_weights: str = ""
    encoder_size: int = 0  # of its pictures; 0: its own
    weights: Mapping[str, str] = field(default_factory=dict)  # of networks that begin from some
    device: str = "auto"
    cache: Path | None = None
    learned_encoder: bool = False
    say: Say | None = None
    _datasets: dict[str, Dataset] = field(default_factory=dict, init=False, repr=False)
    _prints: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _people: dict[tuple[str, ...], dict[str, str]] = field(default_factory=dict, init=False, repr=False)
    _encoders: dict[str, Encoder] = field(default_factory=dict, init=False, repr=False)
    _hashes: dict[int, str] = field(
        default_factory=dict, init=False, repr=False
    )  # of encoders, which are large
    _ready: set[tuple[Path, str]] = field(
        default_factory=set, init=False, repr=False
    )  # stores that are complete

    def __post_init__(self) -> None:
        for name, root in self.roots.items():
            if name not in registry.names():
                raise UsageError(f"--data {name}:{root}: no dataset {name!r}; see `veil data list`")
            if not Path(root).is_dir():
                raise UsageError(f"--data {name}:{root}: no such folder{make_hint(name, str(root))}")

    # --- data ---------------------------------------------------------------------------------------------

    def has(self, names: Sequence[str]) -> bool:
        return all(name in self.roots for name in names)

    def lacks(self, measure: Measure) -> str:
        """Why a measure cannot be taken here: data or weights that were not given; empty where it can."""
        if away := [name for name in measure.needs if name not in self.roots]:
            return "; ".join(f"no {name}: give --data {name}:ROOT{make_hint(name)}" for name in away)
        model = getattr(measure, "model", "")
        if model and not self.scale.can(model, self.weights):
            return f"no weights to begin from: give --weights {model}=FILE"
        return ""

    def data(self, names: Sequence[str]) -> Data:
        """A twin where any of them is one: a figure with made-up people in it says nothing about real ones."""
        if not names:
            return "counted"
        return "twin" if any((Path(self.roots[name]) / MARKER).is_file() for name in names) else "real"

    def dataset(self, name: str, options: Options | None = None) -> Dataset:
        """A dataset by name, cut down where the scale says so."""
        if name not in self.roots:
            raise UsageError(f"{name} is missing: give it with --data {name}:ROOT{make_hint(name)}")
        key = _key(name, options)
        if key not in self._datasets:
            loaded = registry.load(name, self.roots[name], options or {})
            self._datasets[key] = self._cut(name, loaded)
        return self._datasets[key]

    def _cut(self, name: str, dataset: Dataset) -> Dataset:
        limit = self.scale.long_items if name in LONG else self.scale.items
        if not limit or name in WHOLE:
            return dataset
        if all(item.kind == "image" for item in dataset.items):
            limit *= 3  # a picture costs little, and some attributes are rare
        return replace(dataset, items=tuple(evenly(dataset.items, limit, per_kind=name in LONG)))

    def people(self, names: Sequence[str]) -> dict[str, str]:
        """Who is in an item, or which film it was cut from, by its id: these videos are not independent."""
        key = tuple(names)
        if key not in self._people:  # every cell holds it until the end: one for all of them
            self._people[key] = people(item for name in key for item in self.dataset(name).items)
        return self._people[key]

    def fingerprint(self, name: str, options: Options | None = None) -> str:
        """Changes with the items of a dataset, with all that is said of them, and with their files.

        Of the bytes of a file only their number is looked at. Where the dataset lies does not matter.
        """
        key = _key(name, options)
        if key not in self._prints:
            root, dataset = Path(self.roots[name]), self.dataset(name, options)
            marker = (root / MARKER).read_text("utf-8") if (root / MARKER).is_file() else ""
            items = [_told(item) for item in dataset.items]
            vocabulary = [list(dataset.classes), list(dataset.attributes)]
            self._prints[key] = files.value_hash([marker, dict(options or {}), vocabulary, items])
        return self._prints[key]

    # --- pictures and features ----------------------------------------------------------------------------

    def clips(self, name: str, subject: Subject, split: str, options: Options | None = None) -> Clips:
        """Videos or pictures as the subject leaves them."""
        from videoveil.tasks.base import Clips

        if subject.latent is not None:
            raise UsageError(f"{subject.row} anonymizes features; this measure looks at pictures")
        pixels = subject.pixels if subject.paint is None else None
        return Clips(self.dataset(name, options), split, pixels, paint=subject.paint)

    def encoder_of(self, subject: Subject) -> Encoder:
        """The frozen encoder of this evaluation, or the network that was trained with the subject."""
        from videoveil.encoders import create
        from videoveil.encoders.checkpoints import read

        if self._learned(subject):
            assert subject.encoder is not None
            key = str(subject.encoder)
            if key not in self._encoders:
                self._encoders[key] = create(read(subject.encoder).encoder, weights=subject.encoder)
            return self._encoders[key]
        return self._encoders.setdefault("", self._own_encoder)

    def encoder_facts(self, subject: Subject) -> dict[str, str]:
        """Name and hash of the encoder that a subject's features are of, and with whom it was trained."""
        encoder = self.encoder_of(subject)
        facts = {"name": encoder.name, "hash": self._hash(encoder)}
        return facts | {"trained_with": subject.row} if self._learned(subject) else facts

    def encoder_mark(self, subject: Subject) -> str:
        """The encoder of a subject in a word: two that differ in anything have two."""
        facts = self.encoder_facts(subject)
        return f"{facts['name']}@{facts['hash'][:12]}"

    def encoder_words(self, subject: Subject) -> str:
        """Of whose features a figure is, for readers."""
        if not self._learned(subject):
            return f"features of {self.encoder_name}"
        return f"features of {self.encoder_of(subject).name}, trained with {subject.row}"

    def _learned(self, subject: Subject) -> bool:
        return self.learned_encoder and subject.encoder is not None

    def _hash(self, encoder: Encoder) -> str:
        if id(encoder) not in self._hashes:
            self._hashes[id(encoder)] = encoder.content_hash()
        return self._hashes[id(encoder)]

    @cached_property
    def _own_encoder(self) -> Encoder:
        from videoveil.encoders import create

        options = {"size": self.encoder_size} if self.encoder_size else {}
        return create(self.encoder_name, weights=self.encoder_weights or None, **options)

    def features(
        self,
        name: str,
        subject: Subject,
        split: str,
        *,
        clips: str = "all",
        options: Options | None = None,
    ) -> Features:
        """Features as the subject leaves them: of anonymized pictures, or anonymized themselves."""
        from videoveil.features.anonymize import anonymize
        from videoveil.features.extract import extract, recipe_for
        from videoveil.features.store import FeatureStore
        from videoveil.tasks.base import Features

        encoder = self.encoder_of(subject)
        # one store for all choices of a dataset's items: what they share is encoded once
        label = name if not options else f"{name}-{files.value_hash(dict(options))[:8]}"
        dataset = replace(self.dataset(name, options), name=label)
        recipe = recipe_for(encoder, clips=clips, static=self.scale.static)
        made = files.value_hash([self._hash(encoder), recipe.to_json(), name, self.scale.name])
        folder = (self.cache or self.out / "features") / f"{name}-{made[:12]}-{self.fingerprint(name)[:8]}"
        seen = folder / (subject.identity[:16] if subject.pixels is not None else "raw")
        if (seen, label) not in self._ready:
            self._tell(f"features of {label}, {subject.row if subject.pixels is not None else 'raw'}")
            report = extract(
                dataset,
                seen,
                encoder,
                recipe,
                device=self.device,
                workers=self.scale.workers,
                anonymizer=subject.pixels,
            )
            if report.extracted == report.items:  # else a part was there before, and the time says nothing
                files.write_json(seen.with_name(f"{seen.name}.seconds.json"), report.seconds)
            self._ready.add((seen, label))
        if subject.latent is None:
            return Features(FeatureStore.open(seen), label, split)
        hidden = folder / subject.identity[:16]
        if (hidden, label) not in self._ready:
            anonymize(seen, hidden, subject.latent, labels=True, device=self.device)
            self._ready.add((hidden, label))
        return Features(FeatureStore.open(hidden), label, split)

    def extraction_seconds(self, features: Features) -> float | None:
        """How long the raw features took that these were made of; None where they were not made in one go."""
        path = features.store.root.with_name("raw.seconds.json")
        return float(json.loads(path.read_text("utf-8"))) if path.is_file() else None

    # --- memory -------------------------------------------------------------------------------------------

    def measured(self, measure: Measure, subject: Subject) -> Readings:
        """What a measure says of a subject; done once."""
        from videoveil.tasks import outcomes

        measure = self.reduced(measure)
        key = self.key(measure, subject)
        path = self.out / "cells" / f"{key}.json"
        if not path.is_file():
            self._tell(f"{subject.row}: {measure}")
            found = measure.run(self, subject)
            value = {name: [one.value, one.chance] for name, one in found.items()}
            said = {name: one.outcome for name, one in found.items() if one.outcome is not None}
            if said:  # before the figures: a cell that is there is whole
                outcomes.save(path.with_suffix(".npz"), said)
            files.write_json(path, {"measure": repr(measure), "row": subject.row, "readings": value})
        kept = json.loads(path.read_text("utf-8"))["readings"]
        answers = path.with_suffix(".npz")
        said = outcomes.load(answers) if answers.is_file() else {}
        read = {name: Reading(value, chance, said.get(name)) for name, (value, chance) in kept.items()}
        complete: Callable[[Readings], Readings] | None = getattr(measure, "complete", None)
        return read if complete is None else complete(read)

    def reduced(self, measure: Measure) -> Measure:
        """The measure as this scale takes it: columns that then differ in nothing are one measurement."""
        if not self.scale.network or not getattr(measure, "model", ""):
            return measure
        changed: Any = measure
        network = self.scale.stand_in(changed.model, self.weights)
        return replace(changed, model=network.word, size=self.scale.size)  # type: ignore[no-any-return]

    def key(self, measure: Measure, subject: Subject) -> str:
        """The name of a result; see the top of this file."""
        loaded = self.loaded(measure)
        more = [name for name in getattr(measure, "may", ()) if self.has((name,))]
        parts = {
            "measure": repr(measure),
            "subject": subject.identity,
            "scale": repr(self.scale),
            "seed": self.seed,
            "encoder": self._hash(self.encoder_of(subject)),
            "weights": self._begun_from,
            "data": {name: self.fingerprint(name, loaded.get(name)) for name in (*measure.needs, *more)},
            "software": videoveil.__version__,
        }
        return files.value_hash(parts)[:24]

    @cached_property
    def _begun_from(self) -> dict[str, str]:
        """The weights that were given: files by their bytes, others (a hub id…) by name."""
        given = {name: Path(source) for name, source in self.weights.items()}
        return {
            name: files.file_hash(path) if path.is_file() else self.weights[name]
            for name, path in given.items()
        }

    def loaded(self, measure: Measure) -> Mapping[str, Options]:
        """The options a measure loads its datasets with, by dataset; most load them as they are."""
        asked = getattr(measure, "options", None)
        return {} if asked is None else asked(self.seed)

    def run_folder(self, measure: Measure, subject: Subject, part: str = "") -> Path:
        """Where a task keeps its checkpoints."""
        return self.out / "runs" / f"{self.key(measure, subject)}{part}"

    def _tell(self, what: str) -> None:
        if self.say is not None:
            self.say(what)


def evenly(items: Sequence[Item], limit: int, *, per_kind: bool = False) -> list[Item]:
    """At most `limit` items of every split, in turn from every class; `per_kind`: of normal and unusual ones each."""
    groups: dict[tuple[str, bool | None], dict[str, list[Item]]] = defaultdict(lambda: defaultdict(list))
    for item in sorted(items, key=lambda one: one.id):
        groups[item.split, item.anomaly if per_kind else None][item.action or ""].append(item)
    kept: set[str] = set()
    for classes in groups.values():
        queues = [list(members) for _, members in sorted(classes.items())]
        chosen: list[Item] = []
        while len(chosen) < limit and any(queues):
            for members in queues:
                if members and len(chosen) < limit:
                    chosen.append(members.pop(0))
        kept |= {item.id for item in chosen}
    return [item for item in items if item.id in kept]


def _told(item: Item) -> dict[str, Any]:
    """Everything a dataset says of an item, and how large its file is; not where it lies."""
    return {**item_to_json(item), "path": item.path.suffix, "bytes": item.path.stat().st_size}


def make_hint(name: str, root: str = "ROOT") -> str:
    """How a twin of a dataset is made."""
    return f"; `veil data make {name} {root}` makes a twin of it" if name in twins.names() else ""


def _key(name: str, options: Options | None) -> str:
    return f"{name}?{json.dumps(dict(options or {}), sort_keys=True)}"
