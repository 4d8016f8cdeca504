"""The theatre: deterministic videos of articulated actors, with the whole truth about them.

`playwright` writes a `Play` from a seed, `stage` renders any frame of it. The construction makes a privacy-utility
trade-off exist: an action is *only* the velocity of the body's phases, whose starting points are uniform and
independent of the action, so one frame says nothing about it; colours of skin, hair and clothes never enter the
motion, so motion says nothing about them.
"""
