"""Frozen dataclasses to JSON and back. It is strict: an unknown key or a wrong type is an error that names the key."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from enum import IntEnum
from functools import cache, partial
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from cbm.errors import CBMError, meant

T = TypeVar("T")


class BadSetting(CBMError, ValueError):
    """A configuration value that does not exist or has the wrong type."""


class Effect(IntEnum):
    """What a setting affects, from the least to the most: `metadata={"effect": ...}` of its field."""

    NOTHING = 0  # only how a run is computed, not its result
    ROUNDING = 1  # the last digits of a result, which no comparison depends on
    EXTENT = 2  # how long the run is, and what is observed along the way
    RECORDS = 3  # what is written down, and when
    RESULT = 4


def unknown_key(key: str, choices: list[str]) -> BadSetting:
    """The error for a key that does not exist, with those that were probably meant."""
    leaf, at = key.rsplit(".", 1)[-1], key.rpartition(".")[0]
    where = f" in {at!r}" if at else ""
    return BadSetting(f"unknown setting {key!r}.{meant(leaf, choices, 3)} Settings{where}: {', '.join(choices)}.")


def to_json(value: Any) -> Any:
    """Dataclasses become objects and tuples become lists; numbers, strings and None stay as they are."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return value


def flatten(data: Mapping[str, Any], dot: str = ".", prefix: str = "") -> dict[str, Any]:
    """Nested objects as dotted names."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        inner = isinstance(value, Mapping) and value
        flat |= flatten(value, dot, f"{prefix}{key}{dot}") if inner else {f"{prefix}{key}": value}
    return flat


def from_json(kind: type[T], data: Any, key: str = "") -> T:
    """A `kind` from `data`. A missing key gets its default; one that is not a field is an error."""
    if not isinstance(data, dict):
        raise BadSetting(f"{key or 'the configuration'} must be an object, not {data!r}.")
    hints = _hints(kind)
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
    """`value` as the type in `hint`, or an error that names `key`."""
    origin, options = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin is Annotated:
        value = check(options[0], value, key)
        for allowed in options[1:]:
            if not allowed.holds(value):
                raise BadSetting(f"{key} must be {allowed}, not {value!r}.")
        return value
    if origin in (Union, types.UnionType):
        return _first_that_fits(check, hint, value, key)
    if origin is Literal:
        if value not in options:
            raise BadSetting(f"{key} must be one of {', '.join(map(repr, options))}, not {value!r}.")
        return value
    if origin is tuple and isinstance(value, list | tuple):
        inner = [options[0]] * len(value) if options[1:] == (...,) else list(options)
        if len(inner) != len(value):
            raise BadSetting(f"{key} must have {len(inner)} values, not {len(value)}.")
        return tuple(check(kind, item, f"{key}[{i}]") for i, (kind, item) in enumerate(zip(inner, value, strict=True)))
    if origin is Mapping and isinstance(value, Mapping):
        return {str(name): check(options[1], item, f"{key}.{name}") for name, item in value.items()}
    if is_dataclass(hint) and isinstance(hint, type):
        return value if isinstance(value, hint) else from_json(hint, value, key)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    # To Python a bool is an int, but we do not accept it as a number.
    if isinstance(hint, type) and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise _mismatch(hint, value, key)


def _first_that_fits(read: Callable[[Any, Any, str], Any], union: Any, value: Any, key: str) -> Any:
    """`value` as `read` (`check` or `parse`) takes it for the first type of a union for which that is no error."""
    options, errors = get_args(union), []
    for option in options:
        try:
            return read(option, value, key)
        except BadSetting as error:
            errors.append(error)
    # If there is one option besides None, or an object was given, its own error is the helpful one.
    one = isinstance(value, dict) or (len(options) == 2 and type(None) in options)
    raise errors[0] if one else _mismatch(union, value, key)


def parse(hint: Any, text: str, key: str) -> Any:
    """A value typed on the command line: `1e-3`, `true`, `none`, `2,2,1,1`, `time_limit=5`, or plain text."""
    origin, options = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return check(hint, parse(options[0], text, key), key)
    if origin in (Union, types.UnionType):
        if type(None) in options and text.lower() == "none":
            return None
        return _first_that_fits(parse, hint, text, key)
    value: Any = text
    if origin is tuple:
        value = [parse(options[0], part.strip(), key) for part in text.strip("()[] ").split(",") if part]
    elif origin is Mapping:
        pairs = [part.partition("=") for part in text.split(",") if part]
        if not all(equals for _, equals, _ in pairs):
            raise BadSetting(f"{key} must be NAME=VALUE,NAME=VALUE, not {text!r}.")
        value = {name.strip(): parse(options[1], item, f"{key}.{name}") for name, _, item in pairs}
    elif origin is Literal:
        value = next((option for option in options if str(option) == text), text)
    elif hint is bool:
        value = _TRUTH.get(text.lower(), text)
    elif hint in (int, float):
        with suppress(ValueError):
            number = float(text.replace("_", ""))
            whole = abs(number) < 1e300 and number == int(number)  # people write step counts as 5e5
            value = number if hint is float else int(number) if whole else text
    elif hint is not str:
        raise _mismatch(hint, text, key)
    return check(hint, value, key)


def as_text(value: object) -> str:
    """A value as it would be typed: `true`, `none`, `2,2,1,1`, `time_limit=5`."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={as_text(item)}" for name, item in value.items())
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(as_text, value))
    return str(value)


def override(config: T, key: str, to: object, _at: str = "") -> T:
    """`config` with the value at a dotted `key` replaced by `to`, which is parsed if it is a string."""
    name, _, rest = key.partition(".")
    path = f"{_at}.{name}" if _at else name
    names = [field.name for field in fields(config)]  # type: ignore[arg-type]
    if name not in names:
        raise unknown_key(path, names)
    value = getattr(config, name)
    if rest:
        if not is_dataclass(value):
            raise BadSetting(f"{path} is {value!r} in this run, so it has no setting {rest!r}.")
        new: Any = override(value, rest, to, path)
    elif is_dataclass(value):
        raise BadSetting(f"{path} is a group; set one of: {', '.join(f'{path}.{f.name}' for f in fields(value))}.")
    else:
        hint = _hints(type(config))[name]
        new = parse(hint, to, path) if isinstance(to, str) else check(hint, to, path)
    return replace(config, **{name: new})  # type: ignore[type-var]


_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_WORDS = {int: "a whole number", float: "a number", str: "a string", bool: "true or false", type(None): "none"}


def describe(hint: Any) -> str:
    """A type and its range, in words."""
    origin, options = get_origin(hint), get_args(hint)
    if origin is Annotated:
        inner = describe(options[0]) if options[0] in _WORDS and options[0] is not str else ""
        return ", ".join(filter(None, [inner, *map(str, options[1:])]))
    if origin in (Union, types.UnionType):
        return " or ".join(map(describe, options))
    if origin is Literal:
        return ", ".join(map(str, options))
    if origin is tuple:
        return f"a list, each {describe(options[0])}"
    if origin is Mapping:
        return "NAME=VALUE,NAME=VALUE"
    return _WORDS.get(hint) or getattr(hint, "__name__", None) or str(hint).replace("typing.", "")


def _mismatch(hint: Any, value: object, key: str) -> BadSetting:
    shown = repr(value)
    return BadSetting(f"{key} must be {describe(hint)}, not {shown if len(shown) < 80 else f'{shown[:80]} ...'}.")


# The types of a dataclass's fields, with their ranges.
_hints: Callable[[Any], dict[str, Any]] = cache(partial(get_type_hints, include_extras=True))


class Checked:
    """A dataclass of settings that cannot be made unless they have the right types and are within their ranges."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = check(_hints(type(self))[field.name], getattr(self, field.name), field.name)
            object.__setattr__(self, field.name, value)


class Setting(NamedTuple):
    """One line of a table of settings."""

    name: str
    value: Any
    allowed: str
    about: str
    effect: Effect


def table(config: Any, prefix: str = "") -> Iterator[Setting]:
    """Every setting of a tree, with its value, its allowed values, and its description."""
    about = _sentences(type(config))
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value) and not isinstance(value, type):
            yield from table(value, f"{prefix}{field.name}.")
        else:
            allowed = describe(_hints(type(config))[field.name])
            effect = field.metadata.get("effect", Effect.RESULT)
            said = [about.get(field.name, ""), "Changes no result." if effect == Effect.NOTHING else ""]
            yield Setting(prefix + field.name, value, allowed, " ".join(filter(None, said)), effect)


def _sentences(kind: type) -> dict[str, str]:
    """The docstring below each field in the source of a dataclass and its bases."""
    found: dict[str, str] = {}
    for base in reversed([base for base in kind.__mro__ if is_dataclass(base)]):
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for line, text in pairwise(body.body):
            if isinstance(line, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[ast.unparse(line.target)] = " ".join(str(text.value.value).split())
    return found
