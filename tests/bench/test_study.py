"""How the benchmark of studies compares launchers."""

import pytest

from cbm.bench.study import overhead


def test_overhead_compares_within_each_turn() -> None:
    """A machine that is twice as slow in one turn is so for both launchers: 10 % stay 10 %."""
    row = overhead("Ray", ours=[11.0, 22.0, 10.0], reference=[10.0, 20.0, 10.0])
    assert row.ratio == pytest.approx(1.1)
    assert row.value == pytest.approx(0.1)
    assert (row.ours, row.reference) == (11.0, 10.0)
    assert row.details == pytest.approx({"lowest": 0.0, "highest": 0.1})


@pytest.mark.parametrize(("ours", "holds"), [(10.9, True), (11.1, False)])
def test_the_bar_is_ten_percent(ours: float, holds: bool) -> None:
    assert overhead("Ray", [ours], [10.0]).holds == holds
