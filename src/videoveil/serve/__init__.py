"""The service: videos come in over HTTP, anonymized ones go out, and a page to do it with.

    app ── api ── upload          what clients see: routes, and how a body becomes a file
     │      └──── jobs ── store   what is to be done, and the journal of it on disk
     │              └─── crew     the way to the processes that touch videos
     │                    foreman ── worker
     └─── guard, auth, limits     who may ask, how often, from where

No video is opened in the process that listens: a broken or hostile file can take down the process that reads it and
nothing else.
"""
