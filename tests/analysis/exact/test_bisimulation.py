"""The exact metric against small cases by hand and scipy; Proposition 1; the gridworld."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from cbm.analysis.exact import gridworld
from cbm.analysis.exact.bisimulation import MDP, bisimulation_metric, optimal_values, wasserstein
from cbm.cli import main


def random_mdp(seed, states, actions):
    """Sparse and dense rows, rewards in [0, 1]."""
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.full(states, rng.choice([0.1, 1.0])), (actions, states))
    return MDP(rng.random((actions, states)), transition)


def absorbing(*rewards):
    return MDP(np.array([rewards], float), np.eye(len(rewards))[None])


@given(seed=st.integers(0, 10**6), states=st.integers(2, 6))
@settings(max_examples=25, deadline=None)
def test_transport_is_the_optimum_of_the_linear_programme(seed, states):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(states), 2)
    p[rng.integers(states)] = 0
    p /= p.sum()
    d = rng.random((states, states))
    constraints = np.zeros((2 * states, states * states))
    for i in range(states):
        constraints[i, i * states : (i + 1) * states] = 1  # all of p_i leaves i
        constraints[states + i, i::states] = 1  # all of q_i arrives at i
    best = linprog(d.ravel(), A_eq=constraints, b_eq=np.concatenate([p, q])).fun
    assert wasserstein(p, q, d) == pytest.approx(best, abs=1e-9)


def test_states_that_stay_where_they_are_differ_by_their_reward():
    """d = (1 - c) |r - r'| + c d, so d = |r - r'|."""
    d = bisimulation_metric(absorbing(0.0, 0.25, 1.0), c=0.8, tolerance=1e-8)
    np.testing.assert_allclose(d, [[0, 0.25, 1], [0.25, 0, 0.75], [1, 0.75, 0]], atol=1e-7)


def test_bisimilar_states_are_at_distance_zero_and_a_coin_is_half_way():
    # 0 and 1 throw a coin between 2 (reward 0) and 3 (reward 1), in opposite orders; 4 goes to 3 for certain.
    transition = np.array([[0, 0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 0]])
    d = bisimulation_metric(MDP(np.array([[0, 0, 0, 1.0, 0]]), transition[None]), c=0.5, tolerance=1e-8)
    assert d[0, 1] == 0.0
    assert d[2, 3] == pytest.approx(1.0)
    assert d[0, 4] == pytest.approx(0.5 * 0.5, abs=1e-7)  # c times half of d(2, 3)


@given(seed=st.integers(0, 10**6), states=st.integers(2, 5), actions=st.integers(1, 3))
@settings(max_examples=10, deadline=None)
def test_it_is_a_pseudometric_and_solves_its_equation(seed, states, actions):
    mdp, c = random_mdp(seed, states, actions), 0.6
    d = bisimulation_metric(mdp, c, tolerance=1e-7)
    assert (d >= 0).all()
    assert (d == d.T).all()
    assert (np.diag(d) == 0).all()
    assert (d[:, :, None] + d[None] + 1e-6 >= d[:, None, :]).all()  # d(i, j) + d(j, k) >= d(i, k)
    for i in range(states):
        for j in range(states):
            sides = [
                (1 - c) * abs(mdp.reward[a, i] - mdp.reward[a, j])
                + c * wasserstein(mdp.transition[a, i], mdp.transition[a, j], d)
                for a in range(actions)
            ]
            assert d[i, j] == pytest.approx(max(sides), abs=1e-6)


def proposition_holds(mdp, discount, c):
    """For every prototype s_c: states closer to it than any epsilon differ in V* by less than 2 epsilon / (1 - c).

    It is enough to take epsilon just above the larger of the two distances.
    """
    d = bisimulation_metric(mdp, c, tolerance=1e-6)
    values, _ = optimal_values(mdp, discount)
    epsilon = np.maximum(d[:, None, :], d[None, :, :]) + 2e-6  # (s1, s2, s_c); the metric may be 1e-6 too small
    return bool((np.abs(values[:, None] - values[None, :])[:, :, None] < 2 * epsilon / (1 - c)).all())


@given(
    seed=st.integers(0, 10**6),
    states=st.integers(2, 4),
    actions=st.integers(1, 3),
    discount=st.floats(0.0, 0.9),
    above=st.floats(0.0, 1.0),
)
@settings(max_examples=30, deadline=None)
def test_proposition_1(seed, states, actions, discount, above):
    c = discount + above * (0.9 - discount)  # c >= gamma
    assert proposition_holds(random_mdp(seed, states, actions), discount, c)


def test_proposition_1_needs_c_to_be_at_least_gamma():
    assert proposition_holds(absorbing(0.0, 1.0), discount=0.9, c=0.9)
    assert not proposition_holds(absorbing(0.0, 1.0), discount=0.9, c=0.5)


def test_optimal_values_by_hand():
    # stay for 0.1 a step, or go to a place that gives 1 for ever
    mdp = MDP(np.array([[0.1, 1.0], [0.0, 1.0]]), np.array([[[1, 0], [0, 1]], [[0, 1], [0, 1.0]]]))
    values, q = optimal_values(mdp, 0.9)
    assert values == pytest.approx([9.0, 10.0])
    assert q[:, 0] == pytest.approx([0.1 + 0.9 * 9.0, 9.0])


@pytest.mark.parametrize("bad", [{"c": 1.0}, {"c": -0.1}])
def test_a_c_outside_its_range_is_refused(bad):
    with pytest.raises(ValueError, match="must lie in"):
        bisimulation_metric(absorbing(0.0, 1.0), **bad)


def test_transitions_that_are_none_are_refused():
    with pytest.raises(ValueError, match="sum to 1"):
        MDP(np.zeros((1, 2)), np.ones((1, 2, 2)))


def test_the_gridworld_moves_and_slips():
    mdp = gridworld.make_mdp()
    down, last = 1, gridworld.SIDE**2 - 1
    assert mdp.transition[down, 0, 5] == pytest.approx(0.9)
    assert mdp.transition[down, 0, 0] == pytest.approx(0.1 * 2 / 3)  # up and left lead into the wall
    assert mdp.reward[:, last].tolist() == [1.0] * 4
    assert mdp.reward.sum() == 4.0
    values, _ = optimal_values(mdp, 0.9)
    assert values.argmax() == last
    assert values.argmin() == 0


def test_under_a_policy_there_is_one_action():
    mdp = gridworld.make_mdp()
    policy = np.full((25, 4), 0.25)
    uniform = mdp.under(policy)
    assert uniform.reward.shape == (1, 25)
    np.testing.assert_allclose(uniform.transition[0], mdp.transition.mean(axis=0))


def test_a_perfect_distance_ranks_perfectly_and_a_blind_one_does_not():
    rng = np.random.default_rng(0)
    exact = rng.random((6, 6))
    exact = exact + exact.T
    np.fill_diagonal(exact, 0.0)
    found = gridworld.rank(np.tile(exact, (3, 3)) ** 2, exact, exact)
    assert (found.every, found.same, found.policy, found.between) == pytest.approx((1.0, 1.0, 1.0, 0.0))
    background = np.repeat(np.arange(3), 6)
    blind = (background[:, None] != background[None]) + 1e-3 * rng.random((18, 18))
    assert abs(gridworld.rank(blind, exact, exact).every) < 0.3
    assert gridworld.rank(blind, exact, exact).between > 1.0


def test_the_command_draws_and_writes_every_pair(tmp_path, monkeypatch):
    monkeypatch.setattr(gridworld, "C", 0.5)  # converges in a few rounds
    assert main(["bisimulation", "-o", str(tmp_path), "--seeds", "1", "--updates", "2"]) == 0
    names = ["bisimulation.csv", "bisimulation.png", "bisimulation.svg", "bisimulation_ranks.csv"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    ranks = list(csv.DictReader((tmp_path / "bisimulation_ranks.csv").open()))
    assert [row["method"] for row in ranks] == ["untrained", "dynamics only", "CBM"]
    assert len({row["spearman"] for row in ranks}) == 3
    pairs = list(csv.DictReader((tmp_path / "bisimulation.csv").open()))
    assert len(pairs) == 3 * 75 * 74 // 2
    twins = [row for row in pairs if int(row["picture"]) % 25 == int(row["other"]) % 25]
    assert {row["exact"] for row in twins} == {"0"}  # one cell before two backgrounds
    assert min(float(row["approximate"]) for row in twins if row["method"] == "untrained") > 0


def test_a_seed_decides_what_is_learned():
    mdp, weights = gridworld.make_mdp(), gridworld.METHODS["CBM"]
    first, again, other = (gridworld.learn(mdp, weights, seed, updates=2).z for seed in (0, 0, 1))
    assert first.equal(again)
    assert not first.equal(other)


def test_impossible_numbers_are_refused(capsys):
    assert main(["bisimulation", "--seeds", "0"]) == 1
    assert "--seeds must be 1 to" in capsys.readouterr().err


@pytest.mark.slow
def test_training_brings_the_distance_nearer_to_the_exact_one():
    mdp = gridworld.make_mdp()
    exact = bisimulation_metric(mdp, gridworld.C, tolerance=1e-3)
    reward = np.tile(mdp.reward[0], gridworld.BACKGROUNDS)
    found = [
        gridworld.rank(gridworld.learn(mdp, weights, 0, 600).distance(reward), exact, exact).every
        for weights in (gridworld.METHODS["untrained"], gridworld.METHODS["CBM"])
    ]
    assert found[1] > found[0] + 0.1
