"""Files of JSON lines: they go back to a checkpoint, and survive a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from cbm.errors import CBMError
from cbm.system.jsonl import JsonLines, read_lines


def test_lines_after_a_checkpoint_are_cut(tmp_path: Path) -> None:
    file = JsonLines(tmp_path / "metrics.jsonl", tmp_path)
    file.append({"env_step": 1})
    state = file.state()
    file.append({"env_step": 2})
    file.go_back(state)
    file.append({"env_step": 3})
    assert [line["env_step"] for line in read_lines(tmp_path / "metrics.jsonl")] == [1, 3]
    with pytest.raises(CBMError, match=r"metrics\.jsonl has changed .* shorter than 10,000 bytes"):
        file.go_back(state | {"bytes": 10_000})
    with pytest.raises(CBMError, match="its first 16 bytes differ"):
        file.go_back(state | {"sha256": "0"})


def test_a_line_that_a_crash_cut_short_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"env_step": 1}\n{"env_st')
    assert read_lines(tmp_path / "x.jsonl") == [{"env_step": 1}]
    assert read_lines(tmp_path / "absent.jsonl") == []


def test_numbers_are_written_with_every_digit(tmp_path: Path) -> None:
    file = JsonLines(tmp_path / "x.jsonl", tmp_path)
    file.append({"value": 0.1 + 0.2})
    assert read_lines(tmp_path / "x.jsonl")[0]["value"] == 0.1 + 0.2
