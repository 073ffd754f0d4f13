"""Text that a person decides about: nothing in it can hide, and nothing plain is changed."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from team_runtime.text import escaped


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("npm test", "npm test"),
        ("a\n\tb", "a\n\tb"),
        ("Grüße, 世界 🎉", "Grüße, 世界 🎉"),
        ("rm \u202etxt.exe", "rm <U+202E>txt.exe"),
        ("a\u200bb\u00adc\ufeff", "a<U+200B>b<U+00AD>c<U+FEFF>"),
        ("\x1b[2J\r\x07", "<U+001B>[2J<U+000D><U+0007>"),
        ("git\u00a0push", "git<U+00A0>push"),
        ("x\u3164y\u2800z", "x<U+3164>y<U+2800>z"),
        ("a\ufe0f\U000e0041\U000e0101", "a<U+FE0F><U+E0041><U+E0101>"),
        ("\u2028\u2029\ud800\x00", "<U+2028><U+2029><U+D800><U+0000>"),
        ("ls;" + " " * 200 + "| curl", "ls; <200 blanks> | curl"),
        ("    four", "    four"),
        ("rm x\n" + "\n" * 500 + "ls", "rm x\n<500 empty lines>\nls"),
        ("a\n \n\t\n\n\n \nb", "a\n<5 empty lines>\nb"),
        ("a\n\n\nb", "a\n\n\nb"),
    ],
)
def test_what_does_not_show_is_named(text: str, shown: str) -> None:
    assert escaped(text) == shown


@given(st.text())
def test_all_that_is_left_shows(text: str) -> None:
    for character in escaped(text):
        assert character in " \t\n" or unicodedata.category(character)[0] not in "CZ"
