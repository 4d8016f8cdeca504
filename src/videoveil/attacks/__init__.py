"""Attacks: what somebody who has the anonymized output can still find out."""

from videoveil.attacks.base import Attacker, FittedAttacker
from videoveil.attacks.features import ATTACKERS, SUITE, SuiteReport, attacker, fit, split, suite
from videoveil.attacks.frames import ClipAttack, ClipConfig, FrameAttack, FrameConfig
from videoveil.attacks.gait import GaitAttack, GaitConfig
from videoveil.attacks.metrics import (
    AttributeReport,
    AttributeScore,
    ClassReport,
    attribute_report,
    average_precision,
    class_report,
)

__all__ = [
    "ATTACKERS",
    "SUITE",
    "Attacker",
    "AttributeReport",
    "AttributeScore",
    "ClassReport",
    "ClipAttack",
    "ClipConfig",
    "FittedAttacker",
    "FrameAttack",
    "FrameConfig",
    "GaitAttack",
    "GaitConfig",
    "SuiteReport",
    "attacker",
    "attribute_report",
    "average_precision",
    "class_report",
    "fit",
    "split",
    "suite",
]
