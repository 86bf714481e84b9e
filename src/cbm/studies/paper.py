"""The paper's experiments: every figure and table that needs training, a few lines each.

Figures and tables are numbered as in the paper's source. Where it does not say which tasks, magnitudes or numbers a
figure shows, `docs/studies.md` says what was chosen.
"""

from __future__ import annotations

from cbm.envs.tasks import PAPER_TASKS
from cbm.studies.define import Grid, Study

METHODS = ("drq", "drqv2", "drq+cbm", "drqv2+cbm", "proto", "svea", "tpc")
ON_BOTH = ("drq", "drqv2", "drq+cbm", "drqv2+cbm")
TWO_TASKS = ("cartpole-swingup", "walker-walk")
EASY = {"easy": {"env.distraction": "easy"}}
SINGLE = (
    {"none": {"env.distraction": "none"}}
    | {f"background {n}": {"env.distraction": "background", "env.num_videos": n} for n in (4, 8, 60)}
    | {
        f"{what} {s}": {"env.distraction": what, "env.scale": s}
        for what in ("camera", "color")
        for s in (0.1, 0.2, 0.3)
    }
)
PROTOTYPES = {"K = 0": {"agent": "drqv2+dynamics"}} | {
    f"K = {k}": {"agent": "drqv2+cbm", "objective.prototypes": k} for k in (8, 32, 128, 512)
}

_ALL = (
    Study(
        "multi",
        "Six tasks under background, camera and colour at once, seven methods",
        (Grid(PAPER_TASKS, METHODS, EASY),),
        'Figure 3, "Performance under multiple distractions"; Table 4 for DrQ',
    ),
    Study(
        "single",
        "One distraction at rising magnitude",
        (Grid(PAPER_TASKS, METHODS, SINGLE),),
        'Figure 4, "Evaluation results after training with single distraction"',
        scales={"laptop": {"tasks": ("cartpole-swingup",), "methods": ON_BOTH, "seeds": 1}},
    ),
    Study(
        "ablation",
        "CBM, its dynamics loss alone, and a contrastive loss with the same distances",
        (Grid(TWO_TASKS, ("drqv2", "drqv2+cbm", "drqv2+dynamics", "drqv2+bisim-nce"), EASY),),
        'Figure 5, "CBM works better than training a latent model alone or contrastively"',
    ),
    Study(
        "prototypes",
        "How many prototypes CBM needs; K = 0 is the dynamics loss alone",
        (Grid(TWO_TASKS, PROTOTYPES, EASY),),
        'Figure 7, "Performance of CBM with various number of prototypes"',
    ),
    Study(
        "generalization",
        "Finished agents on videos they never saw, 50 episodes",
        (Grid(PAPER_TASKS, ("drq+cbm", "drqv2+cbm"), EASY),),
        'Table 2, "Generalization performance of CBM"',
        final_episodes=50,
    ),
    Study(
        "clean",
        "No distraction: does CBM cost anything where it is not needed?",
        (Grid(PAPER_TASKS, ON_BOTH, {"none": {"env.distraction": "none"}}),),
        'Figure 10, "Results in DeepMind Control"',
    ),
    Study(
        "ch-index",
        "How well clusters follow the physical state over training",
        (Grid(TWO_TASKS, ("proto", "drqv2+cbm"), EASY),),
        'Figure 1, "Measure clustering quality with respect to physical states"',
        analyses=("ch_index", "probes"),
        scales={"smoke": {"set": {"training.analyze_every": 2_000}}},
    ),
    Study(
        "visuals",
        "t-SNE of latents by value and by background; the observations nearest to prototypes",
        (
            Grid(("cartpole-swingup",), ("proto", "drqv2+cbm"), {"background": {"env.distraction": "background"}}),
            Grid(PAPER_TASKS, ("drqv2+cbm",), EASY),
        ),
        'Figures 6 and 8, "t-SNE visualization of representations"; Figures 11 to 16, "Clustering results"',
        seeds=1,
        analyses=("tsne", "gallery"),
        scales={"laptop": {"seeds": 1}},
    ),
)
STUDIES: dict[str, Study] = {study.name: study for study in _ALL}
