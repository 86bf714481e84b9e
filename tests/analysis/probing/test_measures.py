"""What the numbers of an analysis mean, on data where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cbm.analysis.probing import measures
from cbm.analysis.probing.clusters import PAPER_K, Clusters, cluster, prototype_space
from cbm.analysis.probing.probe import Probe
from cbm.objectives.cbm import CBMConfig
from made import make_probe, tiny_agent


def one_hot(names):
    return (names[:, None] == np.array(sorted(set(names)), dtype=object)).astype(float)


def test_the_ch_index_is_the_formula_of_the_appendix():
    rng = np.random.default_rng(1)
    x, labels = rng.normal(size=(60, 4)) * [1, 10, 0.1, 3], rng.integers(0, 7, 60)
    centre, between, within = x.mean(axis=0), 0.0, 0.0
    for k in range(7):
        own = x[labels == k]
        c_k = own.mean(axis=0)
        between += len(own) * np.sum((c_k - centre) ** 2)
        within += np.sum((own - c_k) ** 2)
    assert measures.ch_index(x, labels) == pytest.approx(between / within * (60 - 7) / (7 - 1))


@pytest.mark.parametrize(("state", "labels"), [((10, 2), [0] * 10), ((10, 2), range(10)), ((10, 0), [0, 1] * 5)])
def test_the_ch_index_is_absent_where_it_is_not_defined(state, labels):
    assert measures.ch_index(np.zeros(state), np.array(labels)) is None


def test_a_latent_that_is_the_state_and_one_that_is_the_background():
    probe = make_probe()
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(3, 20))
    robust = probe.state @ mixing
    distracted = one_hot(probe.background) @ mixing + 0.01 * rng.normal(size=(len(probe), 20))
    noise = rng.normal(size=(len(probe), 20))

    assert measures.state_r2(robust, probe) > 0.95
    assert measures.background_accuracy(robust, probe) < 0.4  # chance is 1/3
    assert measures.distraction_ratio(robust, probe.moment) == 0.0

    assert measures.state_r2(distracted, probe) < 0.02
    assert measures.background_accuracy(distracted, probe) == 1.0
    assert 0.9 < measures.distraction_ratio(distracted, probe.moment) < 2.0

    assert measures.state_r2(noise, probe) < 0.0  # held out: what fits noise does not carry over
    assert abs(measures.background_accuracy(noise, probe) - 1 / 3) < 0.08


def test_any_two_pictures_are_as_far_apart_as_the_ratio_compares_with():
    z = np.random.default_rng(0).normal(size=(40, 5))
    every_pair = np.square(z[:, None] - z[None, :]).sum(axis=2).mean()
    moment = np.repeat(np.arange(20), 2)
    own = np.square(z[::2] - z[1::2]).sum(axis=1).mean()
    assert measures.distraction_ratio(z, moment) == pytest.approx(own / every_pair)


def test_same_cluster_counts_pairs_of_one_moment():
    moment, labels = np.array([5, 9, 5, 5, 9, 7]), np.array([1, 2, 1, 3, 2, 4])
    assert measures.same_cluster(labels, moment) == pytest.approx(2 / 4)  # of 5-5 three pairs, one equal; 9-9 one
    assert measures.same_cluster(labels, np.arange(6)) is None


def test_without_backgrounds_or_states_the_numbers_are_absent_and_the_rest_is_there():
    z = np.random.default_rng(0).normal(size=(160, 5))
    alone = make_probe(backgrounds=("none",))
    assert measures.background_accuracy(z, alone) is None
    assert measures.distraction_ratio(z, alone.moment) is None
    assert measures.state_r2(z, alone) is not None
    stateless = make_probe(backgrounds=("none",), states=0)
    assert measures.state_r2(z, stateless) is None


def test_the_cluster_of_cbm_is_the_likeliest_prototype():
    agent = tiny_agent("drqv2+cbm", prototypes=9)
    z = torch.tanh(torch.randn(50, 50, generator=torch.Generator().manual_seed(0)))
    found = cluster(z, prototype_space(agent))
    c = agent.objective.prototypes.detach()
    cosines = [[float(a @ b / (a.norm() * b.norm())) for b in c] for a in z]
    assert found.labels.tolist() == np.argmax(cosines, axis=1).tolist()
    assert (found.kind, found.k) == ("prototypes", 9)
    np.testing.assert_allclose(found.p, torch.softmax(torch.tensor(cosines) / CBMConfig.temperature, 1), rtol=1e-4)


def test_the_cluster_of_proto_rl_is_found_among_projections():
    agent = tiny_agent("proto")
    obs = torch.randint(
        256, (20, *agent.setup.obs_shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    found = cluster(agent.encode(obs), prototype_space(agent))
    projection = agent.objective.projector(agent.encoder.maps(obs), steady=True).detach()
    assert found.k == agent.objective.config.prototypes
    for label, x in zip(found.labels, projection, strict=True):
        cosine = torch.cosine_similarity(x[None], agent.objective.prototypes.detach())
        assert label == int(cosine.argmax())
    assert found.p.sum(axis=1) == pytest.approx(1.0)


def test_agents_without_prototypes_get_as_many_clusters_by_k_means():
    assert prototype_space(tiny_agent("drqv2")) is None
    centres = 10 * torch.randn(128, 6, generator=torch.Generator().manual_seed(0))
    found = cluster(centres.repeat(6, 1), None)
    assert (found.kind, found.k) == ("kmeans", PAPER_K)
    assert len(np.unique(found.labels)) == 128
    assert cluster(centres[:12].repeat(2, 1), None).k == 6  # few observations: four a cluster
    collapsed = cluster(torch.zeros(40, 6), None)
    assert len(set(collapsed.labels.tolist())) == 1  # all the same: no error


def test_usage_and_description():
    clusters = Clusters(np.array([0, 0, 2, 2]), 4, "kmeans")
    assert clusters.usage().tolist() == [0.5, 0, 0.5, 0]
    assert clusters.describe() == "k-means on latents, K = 4"


def test_measure_gives_the_same_bits_twice_and_leaves_random_numbers_alone():
    agent, probe = tiny_agent("drqv2+cbm", prototypes=9), make_probe()
    pictures = np.random.default_rng(0).integers(0, 255, (len(probe), 3, 24, 24), np.uint8)
    probe = Probe(**{**probe.__dict__, "obs": pictures})
    before = torch.get_rng_state()
    first = measures.measure(agent, probe)
    assert measures.measure(agent, probe) == first
    assert torch.equal(before, torch.get_rng_state())
    assert first["observations"] == 480
    assert first["moments"] == 160
    assert first["background_chance"] == pytest.approx(1 / 3)
    assert all(value is not None for value in first.values())


def test_latents_that_are_not_finite_give_no_numbers_and_no_crash():
    agent = tiny_agent("drqv2")
    with torch.no_grad():
        agent.encoder.convs[0].weight.fill_(float("nan"))
    probe = make_probe(moments=2)
    probe = Probe(**{**probe.__dict__, "obs": np.zeros((len(probe), 3, 24, 24), np.uint8)})
    found = measures.measure(agent, probe)
    assert found["ch_index"] is None
    assert found["state_r2"] is None
