"""The record of a pixel recipe: everything that decides an anonymizer of frames but the data and the seed."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from videoveil.anonymizers.checks import stage_to_json
from videoveil.anonymizers.pixel.config import StageConfig, UNet, stage_from_json
from videoveil.errors import UsageError
from videoveil.recipes import text
from videoveil.recipes.latent import Origin
from videoveil.training.minimax_settings import MinimaxSettings


@dataclass(frozen=True, kw_only=True)
class PixelRecipe:
    """Stages of f_A, and how they are trained. An ablation is a recipe with one field replaced."""

    name: str
    stages: tuple[StageConfig, ...] = (UNet(),)
    settings: MinimaxSettings = field(default_factory=MinimaxSettings)
    origin: Origin = field(default_factory=Origin)
    approximation: str = ""  # what is not as published, in words

    @property
    def trains(self) -> bool:
        """Whether anything is learnt; without epochs the stages are used as they are."""
        return bool(self.settings.epochs)

    @property
    def wants_images(self) -> bool:
        """Whether the budget nets see images of another dataset."""
        return self.settings.budget is not None and self.settings.budget.source == "images"

    def changed(self, path: str, value: Any, name: str = "") -> PixelRecipe:
        """The recipe with one field replaced: `recipe.changed("settings.utility.margin", 2.0)`."""
        made: PixelRecipe = _changed(self, path.split("."), value)
        return dataclasses.replace(made, name=name) if name else made

    def with_text(self, path: str, word: str) -> PixelRecipe:
        """The recipe with one field replaced by a value given as text (JSON, or a plain word)."""
        try:
            value = json.loads(word)
        except ValueError:
            value = word
        found: Any = self.to_json()
        for name in path.split("."):
            if not isinstance(found, dict) or name not in found:
                raise UsageError(
                    f"{self.name}: no setting {path!r}; `recipe.yaml` of a run shows what there is"
                )
            found = found[name]
        written = self.to_json()
        place = written
        *way, last = path.split(".")
        for name in way:
            place = place[name]
        place[last] = value
        try:
            return PixelRecipe.from_json(written)
        except (TypeError, ValueError, AttributeError) as error:
            raise UsageError(f"{path}={word}: cannot be used ({error})") from error

    def to_json(self) -> dict[str, Any]:
        value = dataclasses.asdict(self)
        value["stages"] = [stage_to_json(stage) for stage in self.stages]
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PixelRecipe:
        """What `to_json` wrote; an unknown field is an error, because it would silently not be honoured."""
        given = dict(value)
        given["stages"] = [stage_from_json(stage) for stage in given.get("stages", ())]
        made: PixelRecipe = _record(cls, given)
        return made

    def to_text(self) -> str:
        return json.dumps(self.to_json(), indent=1, sort_keys=True) + "\n"

    def to_yaml(self) -> str:
        """For people to read; the JSON text is what is read back."""
        return text.yaml(json.loads(self.to_text()))


def _changed(record: Any, path: list[str], value: Any) -> Any:
    name, rest = path[0], path[1:]
    if name not in {f.name for f in dataclasses.fields(record)}:
        raise UsageError(f"{type(record).__name__}: no setting {name!r}")
    inner = _changed(getattr(record, name), rest, value) if rest else value
    return dataclasses.replace(record, **{name: inner})


def _record(kind: Any, value: Any) -> Any:
    """A record from plain values, records inside it included."""
    if not isinstance(value, Mapping):
        return value
    hints = typing.get_type_hints(kind)
    known = {f.name for f in dataclasses.fields(kind)}
    if unknown := sorted(set(value) - known):
        raise UsageError(
            f"{kind.__name__}: no setting {', '.join(unknown)}; there are {', '.join(sorted(known))}"
        )
    try:
        return kind(
            **{name: _value(hints[name], given, f"{kind.__name__} {name}") for name, given in value.items()}
        )
    except TypeError as error:
        raise UsageError(f"{kind.__name__} cannot be read ({error})") from error


PLAIN: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "text"),
    types.NoneType: ((types.NoneType,), "nothing"),
}


def _value(hint: Any, given: Any, what: str) -> Any:
    """A plain value as its field wants it: lists as tuples, mappings as records. Anything else is refused by name."""
    choices = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for choice in choices:
        if dataclasses.is_dataclass(choice) and isinstance(given, Mapping):
            return _record(choice, given)
        if typing.get_origin(choice) is tuple and isinstance(given, list | tuple):
            return tuple(_value(typing.get_args(choice)[0], one, what) for one in given)
        if _fits(choice, given):
            return given
    raise UsageError(f"{what}={given!r}: must be {' or '.join(_described(choice) for choice in choices)}")


def _fits(choice: Any, given: Any) -> bool:
    if typing.get_origin(choice) is typing.Literal:
        return given in typing.get_args(choice)
    if choice in PLAIN:
        return isinstance(given, PLAIN[choice][0]) and isinstance(given, bool) == (choice is bool)
    return isinstance(choice, type) and isinstance(given, choice)  # a stage that was read already


def _described(choice: Any) -> str:
    if choice in PLAIN:
        return PLAIN[choice][1]
    if typing.get_origin(choice) is typing.Literal:
        return f"one of {', '.join(map(repr, typing.get_args(choice)))}"
    return "a list" if typing.get_origin(choice) is tuple else "a mapping of settings"
