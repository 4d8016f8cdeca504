"""What an anonymizer refuses, each reason with a name of its own."""

from __future__ import annotations

from videoveil.errors import UsageError, VeilError


class Withheld(VeilError):
    """The output (or the input) is not a number: nothing is given out, least of all the raw input."""


class Unchanged(Withheld):
    """Features come out as they went in: whoever had them would have the raw ones."""


class ShapeMismatch(UsageError):
    """Features of the wrong number of axes or the wrong width."""


class NotExportable(UsageError):
    """An anonymizer whose output must not leave the process, and why."""


class NotFitted(UsageError):
    """A part that takes its numbers from data has not seen any."""


class MissingKey(UsageError):
    """Exported noise needs a secret key, and none was given."""


class MissingStatic(UsageError):
    """A part that subtracts what static clips predict was not given their features."""


class EncoderMismatch(UsageError):
    """An anonymizer put behind another encoder than the one it was trained for."""
