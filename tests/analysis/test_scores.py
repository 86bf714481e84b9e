"""Statistics over seeds and tasks, against numbers by hand and against rliable."""

from __future__ import annotations

import numpy as np
import pytest

from cbm.analysis import scores


def random_scores(seed, seeds=5, tasks=4):
    return np.random.default_rng(seed).normal(300, 80, (seeds, tasks))  # rliable's order


def test_the_interquartile_mean_by_hand():
    assert scores.iqm([np.array([1.0, 2, 3, 4, 100, 6, 7, -50])]) == np.mean([2, 3, 4, 6])
    assert scores.iqm([np.array([5.0]), np.array([9.0])]) == 7.0  # too few to cut
    assert scores.iqm([np.zeros((3, 4)), np.ones((3, 4))]).shape == (3,)


def test_probability_of_improvement_by_hand():
    x, y = [np.array([1.0, 2, 3])], [np.array([2.0, 0])]
    # of six pairs 1>0, 2>0, 3>2, 3>0 win and 2=2 is half a win
    assert scores.improvement(x, y) == pytest.approx(4.5 / 6)
    assert scores.improvement(y, x) == pytest.approx(1.5 / 6)
    assert scores.improvement([*x, np.array([0.0])], [*y, np.array([1.0])]) == pytest.approx(4.5 / 12)


def test_profiles_by_hand():
    share = scores.profile([np.array([100.0, 200.0]), np.array([300.0])], np.array([0.0, 100.0, 250.0, 300.0]))
    assert share.tolist() == [1.0, 0.75, 0.5, 0.0]  # above, not at; a task with fewer seeds counts as much


def test_steps_to_a_return():
    assert scores.steps_to([0, 10, 20], [1.0, 5.0, 9.0], 5.0) == 10
    assert scores.steps_to([0, 10, 20], [1.0, 5.0, 4.0], 5.5) is None


def test_an_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        found = scores.estimate([rng.normal(10, 2, 20) for _ in range(3)], resamples=300, seed=trial)
        covered += found.low <= 10.0 <= found.high
    assert 0.86 <= covered / 200 <= 0.99


def test_the_bootstrap_draws_within_each_task():
    """Between tasks there is no luck: with equal seeds in each, there is no uncertainty."""
    found = scores.estimate([np.full(4, 10.0), np.full(4, 500.0)])
    assert found == (found.value, found.value, found.value)


def test_one_run_has_no_interval():
    assert scores.estimate([np.array([3.0])]) == (3.0, None, None)
    assert scores.probability_of_improvement([np.array([3.0])], [np.array([2.0])]) == (1.0, None, None)
    assert scores.estimate([np.array([3.0])], lambda own: scores.profile(own, np.array([1.0]))) == ([1.0], None, None)


def test_the_same_seed_gives_the_same_interval():
    tasks = list(random_scores(0).T)
    assert scores.estimate(tasks, seed=3) == scores.estimate(tasks, seed=3)
    assert scores.estimate(tasks, seed=3) != scores.estimate(tasks, seed=4)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_rliable_agrees():
    library = pytest.importorskip("rliable.library")
    metrics = pytest.importorskip("rliable.metrics")
    x, y = random_scores(1), random_scores(2) + 30
    assert scores.iqm(list(x.T)) == pytest.approx(metrics.aggregate_iqm(x))
    assert scores.improvement(list(x.T), list(y.T)) == pytest.approx(metrics.probability_of_improvement(x, y))
    levels = np.linspace(100, 500, 9)
    profiles, _ = library.create_performance_profile({"x": x}, levels, reps=2)
    assert scores.profile(list(x.T), levels) == pytest.approx(profiles["x"])

    np.random.seed(0)  # noqa: NPY002 - the generator that rliable draws from
    _, interval = library.get_interval_estimates({"x": x}, lambda s: np.array([metrics.aggregate_iqm(s)]), reps=2000)
    found = scores.estimate(list(x.T))
    assert [found.low, found.high] == pytest.approx(interval["x"][:, 0], abs=6.0)  # two bootstraps of one number
