"""Frozen dataclasses to JSON and back, strictly: an unknown key or a wrong type is an error that names the key."""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from cbm.errors import CBMError

T = TypeVar("T")


class BadSetting(CBMError, ValueError):
    """A configuration value that does not exist or has the wrong type."""


def unknown_key(key: str, choices: list[str]) -> BadSetting:
    """The error for a key that is not there, with the ones that were probably meant."""
    leaf, at = key.rsplit(".", 1)[-1], key.rpartition(".")[0]
    near = get_close_matches(leaf, choices, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
    where = f" in {at!r}" if at else ""
    return BadSetting(f"unknown setting {key!r}.{hint} Settings{where}: {', '.join(choices)}.")


def to_json(value: Any) -> Any:
    """Dataclasses become objects and tuples become lists; numbers, strings, None stay."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return value


def from_json(kind: type[T], data: Any, key: str = "") -> T:
    """A `kind` out of `data`. A key that is absent takes its default; one that is not a field is an error."""
    if not isinstance(data, dict):
        raise BadSetting(f"{key or 'the configuration'} must be an object, not {data!r}.")
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    values = {}
    for name, item in data.items():
        path = f"{key}.{name}" if key else name
        if name not in names:
            raise unknown_key(path, names)
        values[name] = check(hints[name], item, path)
    try:
        return kind(**values)
    except TypeError as error:  # a field without a default
        raise BadSetting(f"{key or 'the configuration'}: {error}") from error


def check(hint: Any, value: Any, key: str) -> Any:
    """`value` as the type that `hint` says, or an error that names `key`."""
    origin, options = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        errors = []
        for option in options:
            try:
                return check(option, value, key)
            except BadSetting as error:
                errors.append(error)
        # Where one option is a dataclass and an object was given, its own complaint is the one that helps.
        raise errors[0] if isinstance(value, dict) else BadSetting(_mismatch(hint, value, key))
    if origin is Literal:
        if value not in options:
            raise BadSetting(f"{key} must be one of {', '.join(map(repr, options))}, not {value!r}.")
        return value
    if origin is tuple and isinstance(value, list | tuple):
        inner = [options[0]] * len(value) if options[1:] == (...,) else list(options)
        if len(inner) != len(value):
            raise BadSetting(f"{key} must have {len(inner)} values, not {len(value)}.")
        return tuple(check(kind, item, f"{key}[{i}]") for i, (kind, item) in enumerate(zip(inner, value, strict=True)))
    if is_dataclass(hint) and isinstance(hint, type):
        return value if isinstance(value, hint) else from_json(hint, value, key)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    expected = type(None) if hint in (None, type(None)) else hint
    # bool is an int to Python; a count is not a truth value to us
    if isinstance(expected, type) and isinstance(value, expected) and (expected is bool or not isinstance(value, bool)):
        return value
    raise BadSetting(_mismatch(hint, value, key))


def parse(hint: Any, text: str, key: str) -> Any:
    """A value typed on the command line: `1e-3`, `true`, `none`, `2,2,1,1`, or plain text."""
    origin, options = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if type(None) in options and text.lower() == "none":
            return None
        for option in options:
            try:
                return parse(option, text, key)
            except BadSetting:
                continue
    elif origin is tuple:
        inner = options[0]
        return check(hint, [parse(inner, part, key) for part in text.strip("()[] ").split(",") if part], key)
    elif origin is Literal:
        return check(hint, next((option for option in options if str(option) == text), text), key)
    elif hint is bool and text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    elif hint in (int, float):
        try:
            number = float(text.replace("_", ""))
        except ValueError:
            raise BadSetting(_mismatch(hint, text, key)) from None
        if hint is float:
            return number
        if number == int(number):  # 5e5 is a step count as people write it
            return int(number)
    elif hint is str:
        return text
    raise BadSetting(_mismatch(hint, text, key))


def override(config: T, key: str, text: str, _at: str = "") -> T:
    """`config` with the value at a dotted `key` replaced by what `text` says."""
    name, _, rest = key.partition(".")
    path = f"{_at}.{name}" if _at else name
    names = [field.name for field in fields(config)]  # type: ignore[arg-type]
    if name not in names:
        raise unknown_key(path, names)
    value = getattr(config, name)
    if rest:
        if not is_dataclass(value):
            raise BadSetting(f"{path} is {value!r} in this run, so it has no setting {rest!r}.")
        new: Any = override(value, rest, text, path)
    elif is_dataclass(value):
        raise BadSetting(f"{path} is a group; set one of: {', '.join(f'{path}.{f.name}' for f in fields(value))}.")
    else:
        new = parse(get_type_hints(type(config))[name], text, path)
    return replace(config, **{name: new})  # type: ignore[type-var]


_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _mismatch(hint: Any, value: Any, key: str) -> str:
    wanted = getattr(hint, "__name__", None) if isinstance(hint, type) else str(hint).replace("typing.", "")
    return f"{key} must be {wanted}, not {value!r}."
