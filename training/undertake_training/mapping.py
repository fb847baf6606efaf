"""Settings dataclasses from plain data and back, for every command that has a config file.

A file holds only what differs from the defaults. What it holds is checked key by key and type by type, so that a slip
of the pen is one clear line and not a run with the wrong settings.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml

__all__ = ["ConfigError", "build", "difference", "plain", "read_yaml"]


class ConfigError(ValueError):
    """A setting that cannot be: an unknown key, a wrong type, a value out of its range."""


def read_yaml(path: str | Path) -> Mapping[str, Any]:
    """The mapping in a YAML file; an empty file is an empty one.

    Raises:
        ConfigError: the file cannot be read or is no YAML mapping.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"config {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"config {path}: this is no text file") from None
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"config {path}: no valid YAML: {' '.join(str(error).split())}") from None
    if data is None:
        data = {}
    if not isinstance(data, Mapping):
        raise ConfigError(f"config {path}: a mapping of settings is wanted, not {_kind(data)}")
    return data


def build(cls: Any, data: Mapping[str, Any], path: str = "") -> Any:
    """Build a settings dataclass from plain nested data; `path`, with a dot at its end, is where it stands.

    Raises:
        ConfigError: an unknown key (the nearest known one is named) or a wrong type.
    """
    known = {f.name: f for f in dataclasses.fields(cls)}
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, value in data.items():
        full = f"{path}{key}"
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1, 0.0)
            inside = f" in {path[:-1]}" if path else ""
            hint = f"did you mean {path}{near[0]}?" if near else "it has no settings"
            raise ConfigError(f"unknown setting {key!r}{inside}: {hint}")
        values[key] = _value(hints[key], value, full)
    return cls(**values)


def _value(hint: Any, value: Any, path: str) -> Any:
    """Check one value against its type hint; ints pass as floats, lists as tuples."""
    origin = typing.get_origin(hint)
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{path}: settings of its own are wanted, not {_kind(value)}")
        return build(hint, value, f"{path}.")
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{path}: a list is wanted, not {_kind(value)}")
        return tuple(_value(typing.get_args(hint)[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{path}: settings of its own are wanted, not {_kind(value)}")
        return {str(key): _value(typing.get_args(hint)[1], item, f"{path}.{key}") for key, item in value.items()}
    if origin is Literal:
        allowed = typing.get_args(hint)
        if value not in allowed:
            near = difflib.get_close_matches(str(value), allowed, 1, 0.0)
            names = ", ".join(allowed)
            raise ConfigError(f"{path}: {value!r} is not allowed, one of {names}; did you mean {near[0]!r}?")
        return value
    if origin is types.UnionType:
        if type(value) in typing.get_args(hint):
            return value
        raise ConfigError(f"{path}: a number, true, false, a text or nothing is wanted, not {_kind(value)}")
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[hint]
        raise ConfigError(f"{path}: {wanted} is wanted, not {_kind(value)}{_exponent(hint, value)}")
    return value


def _exponent(hint: Any, value: Any) -> str:
    """YAML reads 1e-3 as a text: it wants a point in a number with an exponent."""
    if hint is not float or not isinstance(value, str):
        return ""
    try:
        float(value)
    except ValueError:
        return ""
    mantissa, letter, exponent = value.lower().partition("e")
    return (
        f" (YAML wants a point: {mantissa}.0{letter}{exponent})" if letter and "." not in mantissa else " (no quotes)"
    )


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, int | float):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "a mapping" if isinstance(value, Mapping) else repr(value)


def plain(value: Any) -> Any:
    """Nested dicts and lists without tuples, as YAML and JSON write them."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


def difference(data: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    """What in `data` differs from `default`, settings of settings likewise."""
    differing: dict[str, Any] = {}
    for key, value in data.items():
        if value == default.get(key):
            continue
        inner = default.get(key)
        nested = isinstance(value, dict) and isinstance(inner, dict) and inner
        differing[key] = difference(value, inner) if nested and inner is not None else value
    return differing
