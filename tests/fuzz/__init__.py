"""Attacks on whatever reads files or takes input: ``python -m tests.fuzz`` runs them for long, tests for seconds.

Every attack is a module with ``attack(rng, folder) -> str``: one try, which depends on the random numbers only. It
answers "refused" or "taken", or raises :class:`Failed`. All else that it raises, and the end of the process, is a
failure, too.
"""

from __future__ import annotations


class Failed(Exception):
    """The attack succeeded: something was accepted or said that must not be."""


def sentence(error: BaseException) -> str:
    """The message of a refusal, which must be one that a user can read."""
    text = str(error)
    if not isinstance(error, (ValueError, TypeError, IndexError, OSError, RuntimeError)):
        raise Failed(f"{type(error).__name__}: {text[:300]}") from error
    if isinstance(error, RecursionError) or not text.rstrip().endswith((".", "!", "?", ".)")) or len(text) < 12:
        raise Failed(f"no sentence: {text[:300]!r}") from error
    if any(ord(letter) < 32 and letter not in "\n\t" for letter in text):
        raise Failed(f"control characters in {text[:300]!r}") from error
    return text
