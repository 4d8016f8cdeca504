"""Attacks: what somebody who has the anonymized output can still find out."""

from videoveil.attacks.attributes import AttackConfig, AttributeAttack
from videoveil.attacks.base import Attacker, FittedAttacker
from videoveil.attacks.composed import Composed, through
from videoveil.attacks.features import ATTACKERS, SUITE, SuiteReport, attacker, fit, split, suite
from videoveil.attacks.frames import ClipAttack, ClipConfig, FrameAttack, FrameConfig
from videoveil.attacks.gait import GaitAttack, GaitConfig
from videoveil.attacks.identity import IdentityAttack, IdentityConfig
from videoveil.attacks.inversion import InversionAttack, InversionConfig
from videoveil.attacks.membership import MembershipAttack, MembershipConfig
from videoveil.attacks.metrics import (
    AttributeReport,
    AttributeScore,
    ClassReport,
    attribute_report,
    average_precision,
    class_report,
)
from videoveil.attacks.off_the_shelf import DetectorAttack, DetectorConfig
from videoveil.attacks.reconstruction import ReconstructionAttack, ReconstructionConfig

__all__ = [
    "ATTACKERS",
    "SUITE",
    "AttackConfig",
    "Attacker",
    "AttributeAttack",
    "AttributeReport",
    "AttributeScore",
    "ClassReport",
    "ClipAttack",
    "ClipConfig",
    "Composed",
    "DetectorAttack",
    "DetectorConfig",
    "FittedAttacker",
    "FrameAttack",
    "FrameConfig",
    "GaitAttack",
    "GaitConfig",
    "IdentityAttack",
    "IdentityConfig",
    "InversionAttack",
    "InversionConfig",
    "MembershipAttack",
    "MembershipConfig",
    "ReconstructionAttack",
    "ReconstructionConfig",
    "SuiteReport",
    "attacker",
    "attribute_report",
    "average_precision",
    "class_report",
    "fit",
    "split",
    "suite",
    "through",
]
