from __future__ import annotations

from videoveil.protocols.phvu import AGAINST_SCENES, PROTOCOLS
from videoveil.recipes import pixel_recipe


def test_the_anonymizer_that_is_asked_for_is_one_against_scenes() -> None:
    """The changes that the page names make of `vita` a recipe that P-HVU can teach: actions kept, scenes private."""
    recipe = pixel_recipe("vita")
    for change in AGAINST_SCENES:
        path, _, value = change.partition("=")
        recipe = recipe.changed(path, value)
    own = recipe.settings
    assert own.utility.target == "actions"
    assert own.budget is not None
    assert (own.budget.kind, own.budget.source, own.budget.labels) == ("labels", "video", "scenes")
    (asked,) = (one for one in PROTOCOLS if one.name == "scenes-objects")
    assert all(f"--set {change}" in asked.note for change in AGAINST_SCENES)
