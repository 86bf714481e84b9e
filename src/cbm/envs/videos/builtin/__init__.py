"""Clips that are generated, not downloaded."""

from .source import BuiltinSource, generate

__all__ = ["BuiltinSource", "generate"]
