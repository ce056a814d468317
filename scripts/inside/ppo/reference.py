"""The policy in NumPy, in double precision: what every device's run is compared with."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np
from policy import Shape, matrices
from trainer import ADAM, STATISTICS, Batch, Settings

Array = np.ndarray
HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)


class DoublePolicy:
    """Actor, critic and Adam in double precision."""

    device, kind = "NumPy", np.float64

    def __init__(self, shape: Shape, settings: Settings) -> None:
        """Start from the first parameters."""
        self.shape, self.settings, self.steps = shape, settings, 0
        self.row = shape.first(settings.seed)
        self.first_moment, self.second_moment = np.zeros_like(self.row), np.zeros_like(self.row)
        self.sums = np.zeros(len(STATISTICS))
        self.batch: Any = None

    # ---- what the trainer asks ----

    def act(self, seen: Array, noise: Array) -> Tuple[Array, Array, Array]:
        """Return forces, their log probabilities and the values of states."""
        mean = self._forward(self.shape.actor, seen)[-1]
        log_std = self.row[self.shape.log_std :]
        forces = mean + np.exp(log_std) * noise
        return forces, self._log_probability(noise), self._forward(self.shape.critic, seen)[-1][:, 0]

    def begin(self, batch: Batch) -> None:
        """Take a batch to learn from."""
        self.batch = batch
        self.sums = np.zeros(len(STATISTICS))

    def learn(self, rows: Array) -> None:
        """Make one step of Adam on some rows of the batch."""
        gradient = self._gradient(rows)
        norm = np.sqrt((gradient**2).sum())
        gradient *= min(1.0, self.settings.largest_norm / (norm + 1e-6))
        self.steps += 1
        one, two, epsilon = ADAM
        self.first_moment = one * self.first_moment + (1 - one) * gradient
        self.second_moment = two * self.second_moment + (1 - two) * gradient**2
        first = self.first_moment / (1 - one**self.steps)
        second = self.second_moment / (1 - two**self.steps)
        self.row = self.row - self.settings.rate * first / (np.sqrt(second) + epsilon)

    def statistics(self) -> Array:
        """Return the sums over all rows learned from since ``begin``."""
        return self.sums

    def state(self) -> Dict[str, Array]:
        """Return all that a checkpoint holds."""
        return {"row": self.row, "first": self.first_moment, "second": self.second_moment}

    def restore(self, state: Dict[str, Array], steps: int) -> None:
        """Go on from a checkpoint."""
        self.row, self.first_moment, self.second_moment = (
            state[k].copy() for k in ("row", "first", "second")
        )
        self.steps = steps

    def wait(self) -> None:
        """Nothing runs on by itself here."""

    # ---- the arithmetic ----

    def _forward(self, layers: List[Any], seen: Array) -> List[Array]:
        """Return the input and what every layer makes of it."""
        values = [seen]
        for number, (weights, biases) in enumerate(matrices(self.row, layers)):
            sums = values[-1] @ weights + biases
            values.append(np.tanh(sums) if number < len(layers) - 1 else sums)
        return values

    def _log_probability(self, noise: Array) -> Array:
        log_std = self.row[self.shape.log_std :]
        found: Array = (-0.5 * noise**2 - log_std - HALF_LOG_TWO_PI).sum(1)
        return found

    def _gradient(self, rows: Array) -> Array:
        """Return the gradient of the loss: surrogate + value + entropy, each a mean over the rows."""
        batch, settings, shape, count = self.batch, self.settings, self.shape, len(rows)
        seen, forces, old, advantage, target = (part[rows] for part in batch.parts())
        actor, critic = self._forward(shape.actor, seen), self._forward(shape.critic, seen)
        log_std = self.row[shape.log_std :]
        apart = (forces - actor[-1]) / np.exp(log_std)
        log_ratio = self._log_probability(apart) - old
        ratio = np.exp(log_ratio)
        low, high = 1 - settings.clip, 1 + settings.clip
        active = np.where(advantage >= 0, ratio <= high, ratio >= low)
        by_log = np.where(active, -advantage * ratio, 0.0)[:, None] / count
        off = critic[-1][:, 0] - target
        gradient = np.zeros_like(self.row)
        self._backward(gradient, shape.actor, actor, by_log * apart / np.exp(log_std))
        self._backward(gradient, shape.critic, critic, settings.value_weight * off[:, None] / count)
        gradient[shape.log_std :] = (by_log * (apart**2 - 1)).sum(0) - settings.entropy_weight
        self.sums += [(ratio - 1 - log_ratio).sum(), (0.5 * off**2).sum(), (~active).sum(), count]
        return gradient

    def _backward(self, gradient: Array, layers: List[Any], values: List[Array], output: Array) -> None:
        """Put the gradient of each layer into its place."""
        there, here = matrices(gradient, layers), matrices(self.row, layers)
        for number in reversed(range(len(layers))):
            there[number][0][...] = values[number].T @ output
            there[number][1][...] = output.sum(0)
            if number:
                output = (output @ here[number][0].T) * (1 - values[number] ** 2)
