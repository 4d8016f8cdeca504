"""Who is asking. A token is known to the service only by its hash, and so is the owner of a job."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from pathlib import Path

from videoveil.errors import UsageError

SHORTEST = 16  # characters; a token is not a password that somebody remembers
LONGEST = 512
LOCAL = "local"  # who owns the jobs of a service without tokens


def token_hash(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(b"videoveil token\0" + token.encode()).hexdigest()


def read_tokens(path: Path | None, variable: str | None = None) -> tuple[str, ...]:
    """Hashes of the tokens in a file (one per line, '#' begins a comment) and of the one in the environment."""
    found: list[str] = []
    if path is not None:
        try:
            lines = path.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--tokens {path}: cannot be read ({type(error).__name__})") from error
        found += [line.partition("#")[0].strip() for line in lines]
        if not any(found):
            raise UsageError(f"--tokens {path}: has no token; write one per line")
    found += [variable.strip()] if variable else []
    return tuple(dict.fromkeys(token_hash(token) for token in _checked(found)))


def _checked(tokens: Iterable[str]) -> Iterable[str]:
    for token in filter(None, tokens):
        if not SHORTEST <= len(token) <= LONGEST or not token.isascii() or not token.isprintable():
            # the token itself is not repeated: this message may end up in a log
            raise UsageError(
                f"a token has {len(token)} characters; it needs {SHORTEST} to {LONGEST} printable ASCII ones, "
                "for instance from `python -c 'import secrets; print(secrets.token_urlsafe(32))'`"
            )
        yield token


def identify(header: str | None, known: Sequence[str]) -> str | None:
    """The owner an Authorization header speaks for, or None. Takes as long for a wrong token as for a right one."""
    if not known:
        return LOCAL
    scheme, _, token = (header or "").partition(" ")
    presented = token_hash(token.strip()[:LONGEST])
    found: str | None = None
    for one in known:  # no early end
        if hmac.compare_digest(one, presented):
            found = one
    return found if scheme.lower() == "bearer" else None
