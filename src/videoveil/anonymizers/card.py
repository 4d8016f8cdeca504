"""The model card: what an anonymizer is, what was measured and what it does not promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from videoveil.errors import UsageError

if TYPE_CHECKING:
    from videoveil.anonymizers.latent import LatentAnonymizer
    from videoveil.anonymizers.publish import Published

ANYWHERE = "FOLDER or ORG/NAME"  # where an anonymizer may be that has no name of its own
REVERSIBLE = ("attention", "attention-only", "mlp")  # undone, in principle, by whoever trains against them
UNKNOWN = "not recorded"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One score on anonymized data, beside the one on raw data and that of a blind guess."""

    name: str  # task or attacker, and data
    kind: Literal["utility", "attack"]
    metric: str
    value: float
    raw: float | None = None
    chance: float | None = None
    low: float | None = None  # ends of the 95 % interval of `value`
    high: float | None = None

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise UsageError(f"measurement {self.name!r}: an interval has two ends, low and high")
        if self.kind not in ("utility", "attack"):
            raise UsageError(f"measurement {self.name!r}: kind={self.kind!r} must be 'utility' or 'attack'")

    @property
    def share(self) -> float | None:
        """What is left above chance of what raw data tell above it; None where they tell nothing, or it is unknown."""
        if self.raw is None or self.chance is None or self.raw <= self.chance:
            return None
        return (self.value - self.chance) / (self.raw - self.chance)


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What the configuration does not know."""

    training_data: str = ""
    measurements: tuple[Measurement, ...] = ()
    notes: str = ""
    license: str = ""
    name: str = ""  # that opens it, of one that comes with the package

    def to_json(self) -> dict[str, Any]:
        value = {**asdict(self), "measurements": [asdict(one) for one in self.measurements]}
        return value if self.name else {key: part for key, part in value.items() if key != "name"}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ModelCard:
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(value) - known):
            raise UsageError(f"model card: unknown fields {', '.join(unknown)}")
        measurements = tuple(Measurement(**one) for one in value.get("measurements", ()))
        return cls(**{**value, "measurements": measurements})


@dataclass(frozen=True, slots=True)
class Account:
    """What a card says of one kind of anonymizer and of this one in particular; the rest is the same for all."""

    heading: str
    purpose: str
    facts: Sequence[str]
    usage: str  # Python
    limits: Sequence[str]
    reversible: Sequence[str]  # kinds of stages that can be undone in principle
    pipeline: str  # the hub's name of what it is for
    tag: str
    output: str  # what it gives out, in one plural word


RISK = (
    "- This is measured risk under the named attackers, on the named data, and nothing more. {what} from it "
    "are not anonymous data: a stronger attacker, other data or side information can find more."
)


def render(anonymizer: Published) -> str:
    """The card as the README.md of a model folder."""
    account, card = anonymizer.account(), anonymizer.card
    parameters = sum(p.numel() for p in anonymizer.parameters())
    facts = [
        *account.facts,
        f"- Training data: {card.training_data or UNKNOWN}",
        f"- Parameters: {parameters:,}",
        f"- Content hash: `{anonymizer.content_hash()}`",
    ]
    limits = [RISK.format(what=account.output.capitalize()), *account.limits]
    sections = [
        _front_matter(card, account),
        f"# {account.heading}",
        account.purpose,
        "\n".join(facts),
        "## Stages\n\n" + "\n".join(_stages(anonymizer, account)),
        f"## Use\n\n```python\n{account.usage}\n```",
        "## Measured\n\n" + _measured(card.measurements, account.output),
        "## Limits\n\n" + "\n".join(limits),
    ]
    if card.notes:
        sections.append("## Notes\n\n" + card.notes)
    return "\n\n".join(sections) + "\n"


def _front_matter(card: ModelCard, account: Account) -> str:
    lines = ["---", "library_name: videoveil", f"pipeline_tag: {account.pipeline}"]
    lines += [f"license: {card.license}"] if card.license else []
    return "\n".join([*lines, "tags:", "- videoveil", "- privacy", f"- {account.tag}", "---"])


def _stages(anonymizer: Published, account: Account) -> list[str]:
    lines = []
    for place, stage in enumerate(anonymizer.config.stages):
        settings = ", ".join(f"{name}={value!r}" for name, value in asdict(stage).items())
        kept = "can be undone in principle" if stage.kind in account.reversible else "throws information away"
        lines.append(f"{place + 1}. **{stage.kind}** ({settings}): {kept}")
    return lines


def _measured(measurements: Sequence[Measurement], output: str) -> str:
    if not measurements:
        return f"Nothing was recorded. Treat its {output} as if they were raw until you have attacked them yourself."
    rows = [
        f"| {m.kind} | {m.name} | {m.metric} | {_with_interval(m)} | {_number(m.raw)} | {_number(m.chance)} |"
        for m in measurements
    ]
    head = "| kind | task or attacker | metric | anonymized | raw | chance |\n|---|---|---|---|---|---|"
    return "\n".join([head, *rows]) + "\n\nAn attack should be near chance, a utility near raw."


def _with_interval(m: Measurement) -> str:
    return f"{m.value:.4g}" if m.low is None else f"{m.value:.4g} [{m.low:.4g}, {m.high:.4g}]"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


# --- latent anonymizers --------------------------------------------------------------------------------------


def card_of_latent(anonymizer: LatentAnonymizer) -> Account:
    """Features in, features out."""
    config = anonymizer.config
    encoder = UNKNOWN if config.encoder is None else f"`{config.encoder.name}`, hash `{config.encoder.hash}`"
    return Account(
        heading="A latent video anonymizer",
        purpose="It stands behind a frozen video encoder and changes clip features so that they keep what happens "
        "in the video and tell less about who it happens to. Features in, features of the same shape out.",
        facts=(
            f"- Encoder it was trained for: {encoder}",
            f"- Feature width: {config.width}; tokens: {config.tokens}",
        ),
        usage=_usage(anonymizer),
        limits=_limits(anonymizer),
        reversible=REVERSIBLE,
        pipeline="video-classification",
        tag="video-features",
        output="features",
    )


def _usage(anonymizer: LatentAnonymizer) -> str:
    key = ', key=NoiseKey.load("noise.key")' if anonymizer.wants_noise else ""
    names = "LatentAnonymizer, NoiseKey, wrap" if key else "LatentAnonymizer, wrap"
    place, encoder = anonymizer.card.name or ANYWHERE, anonymizer.config.encoder
    create, made = "", ""
    if anonymizer.card.name and encoder is not None:  # then the encoder comes with the package as well
        create = "from videoveil.encoders import create\n"
        made = f'encoder = create("{encoder.name}")\n'
    return (
        f"from videoveil.anonymizers import {names}\n{create}\n"
        f'anonymizer = LatentAnonymizer.from_pretrained("{place}"{key})\n'
        f"{made}veiled = wrap(encoder, anonymizer)\nfeatures = veiled(clips)"
    )


def _limits(anonymizer: LatentAnonymizer) -> list[str]:
    lines = ["- The numbers hold for the encoder above only."]
    if all(stage.kind in REVERSIBLE for stage in anonymizer.config.stages):
        lines.append(
            "- Every stage can be undone in principle: expect an attacker trained on the anonymized features to find "
            "most of what an attacker finds on raw ones."
        )
    if anonymizer.wants_noise:
        lines.append(
            "- The noise protects as long as its key is secret. The key is not in this folder. One key gives one clip "
            "the same noise every time; use one key per release."
        )
    if not anonymizer.exportable:
        lines.append(
            "- It attends across the batch and is for comparison only: it refuses to export features."
        )
    return lines
