"""Cleaning, cutting and quoting text that came from outside."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from html import escape
from typing import Any, Final

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1 controls, but tab and newline
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"  # invisible, or turning
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # the direction; and tags,
    "\U000e0000-\U000e0fff]"  # which can spell anything
)

SECRET: Final = "[secret]"
"""Stands for a secret that was taken out."""
_UNSEEN: Final = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"}
"""Categories of characters that do not show, or show as a blank that is none."""
_BLANKS: Final = re.compile(r"(?<=[^ \t\n])[ \t]{20,}")
_EMPTY: Final = re.compile(r"\n((?:[ \t]*\n){5,})")


def scrub(text: str) -> str:
    """`text` with lone surrogates replaced by `?`, so that it can be encoded as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def decode(data: bytes) -> str:
    """`data` as UTF-8; bytes that are not become U+FFFD."""
    return data.decode("utf-8", "replace")


def cut(text: str, limit: int, note: str = "") -> str:
    """`text` in at most about `limit` characters: head, a line that says what is missing, tail."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    missing = len(text) - head - tail
    return f"{text[:head]}\n… [{missing} characters left out{note}] …\n{text[-tail:]}"


def one_line(text: str, limit: int = 120) -> str:
    """`text` on one line for a listing, at most `limit` characters, safe to print."""
    flat = " ".join(for_terminal(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def for_terminal(text: str) -> str:
    """`text` without control, invisible and bidirectional characters, so that it shows as it is."""
    return _CONTROL.sub("\ufffd", scrub(text))


def escaped(text: str) -> str:
    """`text` for a person who decides about it: whatever would not show, or could hide the rest,
    is named, as `<U+202E>`, `<200 blanks>` or `<50 empty lines>`. Other lines and tabs stay."""
    shown = "".join(_named(character) for character in text)
    shown = _EMPTY.sub(lambda lines: f"\n<{lines[1].count(chr(10))} empty lines>\n", shown)
    return _BLANKS.sub(lambda blanks: f" <{len(blanks[0])} blanks> ", shown)


def escaped_line(text: str) -> str:
    """The same on one line."""
    return escaped(text).replace("\n", "<U+000A>")


def cells(character: str) -> int:
    """How wide a terminal shows a character, at the most."""
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _named(character: str) -> str:
    if character in " \t\n" or (character.isascii() and character.isprintable()):
        return character
    unseen = _CONTROL.match(character) or character in "\ufe0e\ufe0f"
    if unseen or unicodedata.category(character) in _UNSEEN:
        return f"<U+{ord(character):04X}>"
    return character


def json_for_terminal(text: str) -> str:
    """JSON text that means the same, with what would not show written as `\\uXXXX`."""
    return _CONTROL.sub(lambda found: json.dumps(found[0])[1:-1], text)


def element(tag: str, attributes: dict[str, str], body: str) -> str:
    """`<tag a="…">body</tag>` with everything escaped, so that no body can close or forge it."""
    shown = "".join(f' {key}="{escape(scrub(value))}"' for key, value in attributes.items())
    return f"<{tag}{shown}>{escape(scrub(body), quote=False)}</{tag}>"


class Redactor:
    """Takes known secrets out of what is recorded and shown. The last of several layers: it knows
    each only as it is, not encoded or in parts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # The longest first: one may be a part of another.
        self._secrets = sorted(set(secrets), key=len, reverse=True)

    def text(self, text: str) -> str:
        """`text` without them."""
        for secret in self._secrets:
            text = text.replace(secret, SECRET)
        return text

    def data(self, data: bytes) -> bytes:
        """`data` without them."""
        for secret in self._secrets:
            data = data.replace(secret.encode(errors="surrogateescape"), SECRET.encode())
        return data

    def value(self, value: Any) -> Any:
        """A JSON value without them in any of its texts."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.value(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(inner) for inner in value]
        return value
