"""Why somebody could not learn, in words that are the same on every machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from videoveil.audit.case import Case
from videoveil.errors import AnnotationError, BadItems, Diverged, UsageError

CANNOT = (UsageError, AnnotationError, BadItems, Diverged)  # what the data do not allow somebody to learn


def in_words(error: Exception, case: Case) -> str:
    """What an error says, without the folders of this machine: the same data give the same words anywhere."""
    named = {case.out: "OUT", case.cache: "CACHE"}
    for side in (case.subject.raw, case.subject.anonymized):
        named.setdefault(side.dataset.root, side.which.upper())
    return without_folders(str(error), named)


def without_folders(text: str, named: Mapping[Path, str]) -> str:
    """With words for the folders that have one; of any other whole path its last part is left."""
    forms = {str(form): word for path, word in named.items() for form in (path, path.absolute())}
    for folder in sorted(forms, key=len, reverse=True):  # one may lie within another
        end = r"(?![\w.-])" if Path(folder).is_absolute() else "(?=/)"  # `out` is a word as well
        text = re.sub(rf"(?<![\w./-]){re.escape(folder)}{end}", forms[folder], text)
    return re.sub(r"(?<![\w./:-])/(?:[^\s/:]+/)+", "", text)
