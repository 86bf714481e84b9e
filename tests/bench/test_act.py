"""The latency of a decision: what is made of measured times, and that they are those of real decisions."""

from __future__ import annotations

import pytest

from cbm.bench.act import decision_times, summarise


def test_median_and_99th_percentile() -> None:
    by_agent = [0.004] * 99 + [0.1]
    by_file = [0.001 * i for i in range(1, 101)]
    median, late = summarise("drqv2", by_agent, by_file)
    assert (median.ours, median.reference) == (pytest.approx(0.0505), pytest.approx(0.004))
    assert median.holds is False  # slower than the agent
    assert late.ours == pytest.approx(0.09901)
    assert late.holds is False  # an agent step is 0.04 s
    assert [row.holds for row in summarise("drqv2", by_agent, [0.002] * 100)] == [True, True]


def test_real_decisions(tmp_path) -> None:
    times = decision_times("tpc", tmp_path / "policy.onnx", decisions=5)
    assert times is not None
    assert [len(each) for each in times] == [5, 5]
    assert 1e-5 < min(times[1]) < 5.0
