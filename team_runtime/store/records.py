"""JSON records as they lie on disk: read strictly, written so that a person can edit them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn, TypeVar

from team_runtime.errors import RecordBroken, VersionTooNew
from team_runtime.types import Json

T = TypeVar("T")


def encode_record(record: Mapping[str, Json]) -> bytes:
    """`record` as indented UTF-8 with a newline at the end.

    Raises `ValueError` or `TypeError` for what JSON cannot hold.
    """
    return _dump(record, indent=2)


def encode_line(record: Mapping[str, Json]) -> bytes:
    """`record` as one line, without the newline."""
    return _dump(record, indent=None).rstrip(b"\n")


def _dump(record: Mapping[str, Json], indent: int | None) -> bytes:
    def text(ascii_only: bool) -> str:
        return json.dumps(record, indent=indent, ensure_ascii=ascii_only, allow_nan=False) + "\n"

    try:
        return text(ascii_only=False).encode()
    except UnicodeEncodeError:  # a lone surrogate survives only as an escape
        return text(ascii_only=True).encode()


def decode_record(data: bytes, path: Path, version: int) -> dict[str, Json]:
    """The object in `data`. Raises `RecordBroken`, or `VersionTooNew` for a `v` over `version`."""
    try:
        value = json.loads(
            data.decode("utf-8-sig"),
            object_pairs_hook=_without_duplicates,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except UnicodeDecodeError as error:
        raise RecordBroken(str(path), "it is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise RecordBroken(str(path), str(error)) from error
    if not isinstance(value, dict):
        raise RecordBroken(str(path), f"it holds {_kind(value)} instead of an object")
    found = value.get("v", version)
    if type(found) is not int:
        raise RecordBroken(str(path), "`v` is not a whole number")
    if found > version:
        raise VersionTooNew(str(path), found, version)
    return value


def _without_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("a key occurs twice, and a rewrite would lose one of the values")
    return record


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


def _kind(value: Json) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a truth value", int: "a number"}
    return "null" if value is None else names.get(type(value), "a number")


class Fields:
    """Typed access to a record's fields. Every method raises `RecordBroken` for a wrong type."""

    def __init__(self, record: Mapping[str, Json], path: Path) -> None:
        self.record = record
        self._path = path

    def broken(self, cause: str) -> RecordBroken:
        return RecordBroken(str(self._path), cause)

    def _typed(self, key: str, kind: type[T], default: T | None) -> T:
        value = self.record.get(key, default)
        if type(value) is not kind:  # exact: a truth value is no number
            raise self.broken(f"`{key}` holds {_kind(value)}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Text; without a default the field must be there."""
        return self._typed(key, str, default)

    def optional(self, key: str) -> str | None:
        """Text, or `None` where it is null or absent."""
        return None if self.record.get(key) is None else self._typed(key, str, None)

    def integer(self, key: str, default: int | None = None) -> int:
        return self._typed(key, int, default)

    def flag(self, key: str) -> bool:
        """A truth value; absent is false."""
        return self._typed(key, bool, False)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of text; absent is empty."""
        values = self._typed(key, list, [])
        if not all(type(value) is str for value in values):
            raise self.broken(f"`{key}` holds more than text")
        return tuple(values)

    def mapping(self, key: str) -> dict[str, Json]:
        """An object; absent is empty."""
        return self._typed(key, dict, {})

    def part(self, key: str, read: Callable[[Fields], T]) -> T | None:
        """The object under `key` as `read` makes it, or `None` where it is null or absent."""
        if self.record.get(key) is None:
            return None
        return read(Fields(self.mapping(key), self._path))

    def parts(self, key: str, read: Callable[[Fields], T]) -> tuple[T, ...]:
        """A list of objects, each as `read` makes it; absent is empty."""
        values = self._typed(key, list, [])
        if not all(type(value) is dict for value in values):
            raise self.broken(f"`{key}` holds more than objects")
        return tuple(read(Fields(value, self._path)) for value in values)
