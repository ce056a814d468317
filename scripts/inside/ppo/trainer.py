"""Proximal policy optimisation: collect episodes, judge the actions, learn from them, keep checkpoints.

The trainer knows no device. A policy acts and learns (``device.DevicePolicy``, ``reference.DoublePolicy``,
``torch_policy.TorchPolicy``); random numbers, episodes and advantages are the same for all of them, drawn and
computed by NumPy in double precision from the seed and the number of the iteration.
"""

from __future__ import annotations

import os
import sys
import time
import zipfile
import zlib
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))

from cuda_calls import linger
from environment import MASSES, STEPS, Chains

Array = np.ndarray
#: How fast the moments forget, and what is added to the root of the second one.
ADAM = (0.9, 0.999, 1e-5)
#: What a policy sums up over the rows it learns from.
STATISTICS = ("kl", "value_loss", "clipped", "rows")
FORMAT = 1
#: Epochs, parts of a batch, and the rate of Adam, for each of the networks: a wide one takes smaller steps.
LEARNING = {"default": (4, 4, 1e-4), "small": (6, 8, 2e-3)}


class Settings:
    """The numbers of a run."""

    clip, value_weight, entropy_weight, largest_norm = 0.2, 0.5, 0.0005, 0.5
    discount, trace = 0.97, 0.95

    def __init__(self, *, seed: int, chains: int, network: str, slowdown: float = 0.0) -> None:
        """Keep what differs between runs."""
        self.seed, self.chains, self.slowdown = seed, chains, slowdown
        self.epochs, self.parts, self.rate = LEARNING[network]

    @property
    def largest(self) -> int:
        """The most rows that a policy computes at a time."""
        return max(self.chains, -(-self.chains * STEPS // self.parts))


class Batch:
    """The steps of one iteration, a row each."""

    def __init__(self, count: int, seen: int) -> None:
        """Make room."""
        self.seen, self.forces = np.zeros((count, seen)), np.zeros((count, MASSES))
        self.log_probability, self.advantage, self.target = np.zeros(count), np.zeros(count), np.zeros(count)

    def parts(self) -> Tuple[Array, ...]:
        """Return all columns, in the order that policies take them."""
        return self.seen, self.forces, self.log_probability, self.advantage, self.target


def advantages(rewards: Array, values: Array, settings: Settings) -> Tuple[Array, Array]:
    """Return advantages and value targets (generalised advantage estimation); episodes end with the rows."""
    found, running = np.zeros_like(rewards), np.zeros(rewards.shape[1])
    for t in reversed(range(len(rewards))):
        after = values[t + 1] if t + 1 < len(values) else np.zeros(rewards.shape[1])
        surprise = rewards[t] + settings.discount * after - values[t]
        running = surprise + settings.discount * settings.trace * running
        found[t] = running
    return found, found + values


class Trainer:
    """Iterations of one policy, one after the other."""

    def __init__(self, policy: Any, settings: Settings) -> None:
        """Begin before the first iteration."""
        self.policy, self.settings, self.done = policy, settings, 0
        self.chains = Chains(settings.chains)

    def iterate(self) -> Dict[str, float]:
        """Collect and learn once; return the figures that the published benchmark prints."""
        rng = np.random.default_rng([self.settings.seed, 1, self.done])
        start = time.perf_counter()
        batch, episode_return, inference = self.collect(rng)
        collected = time.perf_counter()
        learned = self.consume(batch, rng)
        end = start + linger(start, self.settings.slowdown)
        self.done += 1
        steps = self.settings.chains * STEPS
        kl, value_loss, clipped, rows = self.policy.statistics()
        log_std = self.policy.state()["row"][-MASSES:]
        return {
            "overall_sps": steps / (end - start),
            "collection_sps": steps / (collected - start),
            "consumption_sps": steps / (end - collected),
            "inference_s": inference,
            "ppo_learn_s": learned,
            "kl": float(kl / rows),
            "entropy": float(np.sum(log_std) + MASSES * 0.5 * np.log(2 * np.pi * np.e)),
            "value_loss": float(value_loss / rows),
            "clipped": float(clipped / rows),
            "return": episode_return,
        }

    def collect(self, rng: np.random.Generator) -> Tuple[Batch, float, float]:
        """Play one episode with every chain: the steps, the mean return, seconds that the policy took."""
        chains, count = self.chains, self.settings.chains
        chains.start(rng)
        batch = Batch(STEPS * count, chains.observe().shape[1])
        rewards, values, inference = np.zeros((STEPS, count)), np.zeros((STEPS, count)), 0.0
        for t in range(STEPS):
            seen, noise = chains.observe(), rng.standard_normal((count, MASSES))
            start = time.perf_counter()
            forces, log_probability, values[t] = self.policy.act(seen, noise)
            inference += time.perf_counter() - start
            rewards[t] = chains.step(forces)
            rows = slice(t * count, (t + 1) * count)
            batch.seen[rows], batch.forces[rows], batch.log_probability[rows] = seen, forces, log_probability
        found, targets = advantages(rewards, values, self.settings)
        batch.advantage = ((found - found.mean()) / (found.std() + 1e-8)).ravel()
        batch.target = targets.ravel()
        return batch, float(rewards.sum(0).mean()), inference

    def consume(self, batch: Batch, rng: np.random.Generator) -> float:
        """Learn from a batch, in several epochs of several parts; return the seconds of learning alone."""
        self.policy.begin(batch)
        self.policy.wait()
        start = time.perf_counter()
        for _ in range(self.settings.epochs):
            for rows in np.array_split(rng.permutation(len(batch.target)), self.settings.parts):
                self.policy.learn(rows)
        self.policy.wait()
        return time.perf_counter() - start

    def evaluate(self) -> float:
        """Return the mean return of one episode with the means of all forces, from starts never trained on."""
        self.chains.start(np.random.default_rng([self.settings.seed, 2]))
        total = np.zeros(self.settings.chains)
        still = np.zeros((self.settings.chains, MASSES))
        for _ in range(STEPS):
            total += self.chains.step(self.policy.act(self.chains.observe(), still)[0])
        return float(total.mean())


def save(trainer: Trainer, path: Path) -> None:
    """Write a checkpoint: whole, or not at all."""
    there = path.with_name(path.name + ".part")
    numbers = {"format": FORMAT, "done": trainer.done, "steps": trainer.policy.steps}
    numbers.update(seed=trainer.settings.seed, chains=trainer.settings.chains)
    with there.open("wb") as file:
        kept = {k: v.astype(trainer.policy.kind) for k, v in trainer.policy.state().items()}
        arrays: Dict[str, Any] = {**{k: np.array(v) for k, v in numbers.items()}, **kept}
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    there.replace(path)


#: Whole numbers in a checkpoint, and what reading a file that is none can end with.
COUNTED = ("format", "seed", "chains", "done", "steps")
UNREADABLE = (
    OSError, ValueError, TypeError, KeyError, AttributeError, EOFError, OverflowError, MemoryError, RuntimeError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def resume(trainer: Trainer, path: Path) -> None:
    """Go on from a checkpoint.

    Raises:
        ValueError: it is none, or one of another run.
    """
    settings, shape = trainer.settings, trainer.policy.shape
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            held = {name: data[name] for name in data.files}
        counted = {name: int(held[name]) for name in COUNTED if name in held}
    except UNREADABLE as error:
        raise ValueError("%s is no checkpoint: %s" % (path, error)) from error
    if min(counted.get("done", -1), counted.get("steps", -1)) < 0:
        raise ValueError("%s is no checkpoint: it does not say how far it went" % path)
    wanted = {"format": FORMAT, "seed": settings.seed, "chains": settings.chains}
    for name, value in wanted.items():
        if counted.get(name) != value:
            raise ValueError("%s is of another run: %s is not %d" % (path, name, value))
    rows: List[Array] = [held.get(name, np.zeros(0)) for name in ("row", "first", "second")]
    if any(row.shape != (shape.parameters,) or row.dtype.kind != "f" for row in rows):
        raise ValueError("%s is of another network" % path)
    if not all(np.isfinite(row).all() for row in rows):
        raise ValueError("%s holds numbers that are none" % path)
    trainer.policy.restore(held, counted["steps"])
    trainer.done = counted["done"]
