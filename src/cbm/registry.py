"""Tables of agents, objectives and distractions: our own, and those that other installed packages bring along."""

from __future__ import annotations

import warnings
from collections import UserDict
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from cbm.errors import CBMError

T = TypeVar("T")
_GROUPS = ("cbm.agents", "cbm.objectives", "cbm.distractions")


class Registry(UserDict[str, T]):
    """`own` entries by name, and those of the entry points in `group`, which load when they are asked for.

    So a package that does not load does no harm until one of its names is used.
    """

    def __init__(self, group: str, entry: type, own: Mapping[str, T]) -> None:
        table: dict[str, Any] = dict(own)
        for point in entry_points(group=group):
            if point.name in table:
                warnings.warn(
                    f"{_origin(point)} offers {point.name!r} in {group}: that name is already taken, so it is ignored",
                    stacklevel=2,
                )
            table.setdefault(point.name, point)
        super().__init__(table)
        self._entry = entry

    def __getitem__(self, name: str) -> T:
        value: Any = super().__getitem__(name)
        if isinstance(value, EntryPoint):
            value = self.data[name] = self._load(value)
        return value

    def _load(self, point: EntryPoint) -> T:
        here = f"{point.name!r} of {_origin(point)} ({point.group}: {point.value})"
        try:
            value = point.load()
        except Exception as error:
            raise CBMError(f"{here} does not load: {type(error).__name__}: {error}") from error
        problem = self._problem(value)
        if problem is not None:
            raise CBMError(f"{here} {problem}")
        return value

    def _problem(self, value: object) -> str | None:
        """What is wrong with an entry of another package."""
        if isinstance(value, self._entry):
            return None
        return f"must be of type {self._entry.__name__}, not {type(value).__name__}"


class ClassRegistry(Registry[type[T]]):
    """A table of classes: its entry points name a subclass of `entry`."""

    def _problem(self, value: object) -> str | None:
        if isinstance(value, type) and issubclass(value, self._entry):
            return None
        return f"must be a subclass of {self._entry.__name__}, not {value!r}"


def installed_packages() -> dict[str, str]:
    """Name and version of the packages that bring agents, objectives or distractions, whether or not these load."""
    points = [point for group in _GROUPS for point in entry_points(group=group)]
    return {point.dist.name: point.dist.version for point in points if point.dist is not None}


def _origin(point: EntryPoint) -> str:
    return "a package" if point.dist is None else f"the package {point.dist.name} {point.dist.version}"
