"""The training loop: act, step, store, update; every so often evaluate, log, save."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cbm.analysis.probing.online import Analyzer
from cbm.config import RunConfig, changed_in_passing, comparison, read_config, read_provenance, to_json, write_config
from cbm.config.build import resolve_machine, thread_count, worker_count
from cbm.errors import CBMError
from cbm.evaluation.play import Interrupted, evaluation_episodes, summarise
from cbm.evaluation.record import film_best
from cbm.evaluation.workers import Workers
from cbm.learning import threads
from cbm.learning.memory import keep_freed_memory
from cbm.runs import checkpoint
from cbm.runs.directory import RunDir
from cbm.runs.load import find_run
from cbm.runs.provenance import provenance
from cbm.runs.trust import check_trusted, module_of, trust
from cbm.training.callbacks import Callback, Callbacks, LiveRun
from cbm.training.collect import make_collector
from cbm.training.logs import Logs, Stopwatch, start_wandb
from cbm.training.progress import ProgressDisplay
from cbm.training.session import Counters, Saver, Session
from cbm.training.stepper import Stepper
from cbm.training.stop import Stop, explain_full_disk, note_ending


@dataclass(frozen=True)
class Outcome:
    """How a run ended. `stopped` says why it ended early, and is None if it is complete."""

    at: Counters
    stopped: str | None
    signal: int | None  # that stopped it


def train(
    config: RunConfig,
    out: Path | str,
    *,
    callbacks: Sequence[Callback] = (),
    wandb: bool = False,
    quiet: bool = False,
) -> Outcome:
    """Train in the directory `out`, which must not hold a run yet.

    Args:
        config: the configuration of the run; `cbm.make_config` makes one.
        out: the run directory. It gets metrics, checkpoints and films.
        callbacks: called at each step, at each evaluation and at the end; see `cbm.Callback`.
        wandb: log to Weights & Biases as well.
        quiet: print nothing.

    Returns:
        How the run ended: `at` has the counters, and `stopped` is None if it is complete.

    Examples:
        A run that takes seconds. Without `overrides` it takes hours.

        >>> import cbm
        >>> env = cbm.EnvConfig("cartpole-swingup", "easy", num_videos=2, size=32, task_kwargs={"time_limit": 1})
        >>> short = {"total_steps": 320, "seed_steps": 160, "eval_episodes": 1, "eval_workers": 0, "film": False}
        >>> short |= {"analyze_every": 0, "overlap": False}
        >>> overrides = {f"training.{name}": value for name, value in short.items()}
        >>> config = cbm.make_config("drqv2+cbm", env, preset="laptop", seed=1, overrides=overrides)
        >>> outcome = cbm.train(config, "runs/short", quiet=True)
        >>> outcome.at.env_step, outcome.stopped
        (320, None)
    """
    calls = Callbacks(callbacks)
    run = RunDir(Path(out))
    if run.root.is_file():
        raise CBMError(f"{run.root} is a file, and a run needs a folder: choose another --out.")
    with explain_full_disk(run), run.locked():
        if run.config.exists():
            again = run.resume_command
            raise CBMError(f"{run.root} already holds a run. To resume it: {again}. Or choose another --out.")
        trust(module_of(config.env.env_id))
        origin = provenance() | {"differences": comparison.differences(config)}
        return _loop(resolve_machine(config), run, origin, calls, wandb, quiet)


def resume(
    out: Path | str,
    *,
    total_steps: int | None = None,
    overrides: Mapping[str, object] | None = None,
    callbacks: Sequence[Callback] = (),
    wandb: bool = False,
    quiet: bool = False,
) -> Outcome:
    """Resume the run in `out`. The result is that of a run without interruption, bit for bit on the CPU.

    Args:
        out: the run directory.
        total_steps: extends the run to this many environment steps.
        overrides: settings that change no result, by their dotted names, such as `training.threads`.
        callbacks: as for `cbm.train`.
        wandb: log to Weights & Biases as well.
        quiet: print nothing.

    Examples:
        The run from the example of `cbm.train`, extended.

        >>> import cbm
        >>> outcome = cbm.resume("runs/short", total_steps=400, overrides={"training.threads": 1}, quiet=True)
        >>> outcome.at.env_step
        400
    """
    calls = Callbacks(callbacks)
    run = find_run(out)
    if run.entry.exists():
        raise CBMError(
            f"{out} is an agent of the zoo. It has no optimizers and no replay, so it cannot be trained further."
        )
    with explain_full_disk(run), run.locked():
        config = changed_in_passing(read_config(run.config), overrides or {})
        check_trusted(config.env.env_id, run.root)
        if total_steps is not None:
            config = replace(config, training=replace(config.training, total_steps=total_steps))
        return _loop(config, run, read_provenance(run.config), calls, wandb, quiet)


def _loop(
    config: RunConfig, run: RunDir, origin: Mapping[str, Any], calls: Callbacks, wandb: bool, quiet: bool
) -> Outcome:
    training, repeat = config.training, config.env.action_repeat
    assert repeat is not None
    keep_freed_memory()
    with ExitStack() as stack:
        stack.enter_context(calls)
        stack.enter_context(threads.use(thread_count(training.threads)))
        stop = stack.enter_context(Stop())
        stack.enter_context(note_ending(run, stop))
        clock = Stopwatch()
        workers = Workers(to_json(config), worker_count(training.eval_episodes, training.eval_workers))
        stack.callback(workers.close)
        collector = make_collector(config)
        stack.callback(collector.close)
        checkpoint.clear_unfinished(run.checkpoints)
        done, state = checkpoint.load_newest(run.checkpoints) or (0, None)
        if state is None:  # a new run evaluates right away
            workers.start()
        if training.total_steps <= done - repeat:
            raise CBMError(
                f"this run has done {done:,} environment steps: it cannot end at {training.total_steps:,}. "
                f"To extend it: {run.resume_command} --steps {2 * done}"
            )
        session = Session(config, collector, run.replay, state)
        agent, means, at = session.agent, session.means, session.at
        write_config(run.config, config, origin)
        analyzer = Analyzer(config, session.shapes, workers)
        logs = Logs(run, at.env_step, state and state["records"], wandb and start_wandb(run, to_json(config)))
        stack.callback(logs.close)
        show = stack.enter_context(ProgressDisplay(training.total_steps, quiet))
        show.say(comparison.describe(config, comparison.differences(config)))
        if state is not None:
            show.say(f"{run.root}: resuming from the checkpoint at environment step {at.env_step:,}")
        if training.overlap and isinstance(collector, Stepper):
            show.say(
                f"{config.agent_name} cannot act while it learns (docs/extending.md), so training.overlap has no effect"
            )
        saver = Saver(run, session, logs, state is not None)
        stack.enter_context(saver.advising())
        live = LiveRun(config, run.root, session, stop)

        def progress() -> None:
            show.update(at.env_step, at.agent_step, at.updates, live.episode_return)

        def due(every: int, since: int | None = None) -> bool:
            """Whether a multiple of `every` was reached since that environment step; by default, in the last step."""
            return at.env_step // every > (at.env_step - repeat if since is None else since) // every

        while True:
            finished = at.env_step >= training.total_steps
            if at.evaluated != at.env_step and (finished or due(training.eval_every)):
                jobs = evaluation_episodes(config, at.env_step, training.eval_episodes, config.env.splits)
                try:
                    with clock("evaluate"):
                        episodes = workers.play(agent.state_dict(), jobs, at.env_step, stop.__bool__)
                    findings = None
                    if training.analyze_every and (finished or due(training.analyze_every, since=at.evaluated)):
                        with clock("analyze"):
                            findings = analyzer.measure(agent.state_dict(), at.env_step, stop.__bool__)
                except Interrupted:  # `evaluated` stays as it was, so the resumed run starts with this evaluation
                    saver.save()
                    break
                at.evaluated = at.env_step
                results = summarise(episodes)
                logs.write(logs.evals, {**at.counts(), **results})
                if findings is not None:
                    logs.write(logs.analysis, {**at.counts(), **findings})
                logs.timings.append({**at.counts(), "seconds": clock.seconds()})
                scores = [f"{split} {each['mean']:.1f} (std {each['std']:.1f})" for split, each in results.items()]
                show.say(f"evaluation at {at.env_step:,}: {', '.join(scores)}")
                calls("on_evaluation", live, results)
            if stop or finished or due(training.checkpoint_every) or saver.overdue(training.checkpoint_minutes):
                with clock("checkpoint"):
                    saver.save()
            if stop or finished:
                break

            try:
                step = collector.take(at.env_step)
            except Exception:
                means.read()  # if a loss is not finite, that explains an action that is not
                raise
            for part, seconds in step.seconds.items():
                clock.add(part, seconds)
            with clock("replay"):
                session.store(step)
            if step.ended is not None:
                live.episode_return = step.ended["episode_return"]
                logs.write(logs.metrics, {"env_step": at.env_step, **step.ended})

            learn(session, config, clock, progress)
            if due(training.log_every) and means:
                logs.write(logs.metrics, {**at.counts(), **means.take()})
                logs.timings.append({**at.counts(), "seconds": clock.seconds()})
            progress()
            calls("on_step", live)

        if stop:
            show.say(f"stopped at environment step {at.env_step:,}, saved. To resume: {run.resume_command}")
        elif training.film:
            show.say(f"film of the best episode: {film_best(config, run, agent)}")
        calls("on_end", live)
    return Outcome(at, stop.reason, stop.signal)


def learn(session: Session, config: RunConfig, clock: Stopwatch, progress: Callable[[], None] = lambda: None) -> None:
    """Make the updates that are due, while the steps before the next update are taken."""
    agent, at, due = session.agent, session.at, _updates_due(session.at.agent_step, config)
    if at.updates < due:
        session.collector.go_ahead(_steps_to_update(at, config))
    while at.updates < due:
        with clock("sample"):
            batch = agent.sample(session.replay, session.sampling)
        with clock("update"):
            metrics = agent.update(batch, at.env_step)
        session.means.add(metrics, at.env_step)
        at.updates += 1
        if at.updates % 100 == 0:  # some agents make hundreds in a row
            progress()


def _updates_due(agent_step: int, config: RunConfig) -> int:
    """How many updates there should have been by then. The first comes when the seed steps are over."""
    repeat = config.env.action_repeat or 1
    first = max(1, -(-config.training.seed_steps // repeat))
    since, rate = agent_step - first, config.updates_per_agent_step
    if since < 0:
        return 0
    at_once = config.agent.first_updates
    return at_once + int(since * rate) if at_once else int((since + 1) * rate)


def _steps_to_update(at: Counters, config: RunConfig) -> range:
    """The agent steps from now to the next update, or to the end of the run, by the environment steps before them."""
    left = range(at.env_step, config.training.total_steps, config.env.action_repeat or 1)
    due = _updates_due(at.agent_step, config)
    count = next((n for n in range(1, len(left)) if _updates_due(at.agent_step + n, config) > due), len(left))
    return left[:count]
