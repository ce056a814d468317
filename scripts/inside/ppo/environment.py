"""The control task: many chains of 13 masses, each to be brought to rest by 13 forces, in episodes of 32 steps.

The masses of a chain are coupled by springs; a step moves them by ``STEP`` seconds and costs the mean square of
places, speeds and forces. Everything is linear and every cost a square, so the best return there is can be
computed (by a Riccati recursion) and what a policy reaches can be told as a share of it: 0 for forces that
stay zero, 1 for the best possible. NumPy in double precision, whatever device the policy runs on.
"""

from __future__ import annotations

from typing import Tuple

import numpy as np

MASSES = 13
STEPS = 32
#: Places, speeds, and how much of the episode is left.
OBSERVED = 2 * MASSES + 1
STEP, SPRING, FRICTION, FORCE = 0.1, 0.5, 0.2, 3.0
PLACE_COST, SPEED_COST, FORCE_COST = 1.0, 0.1, 0.02
Array = np.ndarray


def dynamics() -> Tuple[Array, Array]:
    """Return the matrices of one step: what places and speeds become by themselves, and by the forces."""
    one, zero = np.eye(MASSES), np.zeros((MASSES, MASSES))
    pull = SPRING * (np.eye(MASSES, k=1) + np.eye(MASSES, k=-1) - 2 * one)
    move = np.block([[one, STEP * one], [STEP * pull, (1 - STEP * FRICTION) * one]])
    return move, np.vstack([zero, STEP * FORCE * one])


def costs() -> Tuple[Array, Array]:
    """Return the matrices of one step's cost: of the state, and of the forces."""
    state = np.repeat([PLACE_COST, SPEED_COST], MASSES) / MASSES
    return np.diag(state), np.eye(MASSES) * FORCE_COST / MASSES


class Chains:
    """Some chains; all of them start an episode together."""

    def __init__(self, count: int) -> None:
        """Prepare so many chains."""
        self.count, self.time = count, 0
        self.state = np.zeros((count, 2 * MASSES))
        self.move, self.push = (matrix.T.copy() for matrix in dynamics())

    def start(self, rng: np.random.Generator) -> None:
        """Begin an episode: every mass somewhere in [-1, 1), at rest."""
        self.state = np.zeros((self.count, 2 * MASSES))
        self.state[:, :MASSES] = rng.uniform(-1, 1, (self.count, MASSES))
        self.time = 0

    def observe(self) -> Array:
        """Return what the policy sees of every chain."""
        left = np.full((self.count, 1), 1 - self.time / STEPS)
        return np.concatenate([self.state, left], axis=1)

    def step(self, forces: Array) -> Array:
        """Move every chain by one step and return each one's reward."""
        places, speeds = self.state[:, :MASSES], self.state[:, MASSES:]
        cost = PLACE_COST * (places**2).mean(1) + SPEED_COST * (speeds**2).mean(1)
        cost += FORCE_COST * (forces**2).mean(1)
        self.state = self.state @ self.move + forces @ self.push
        self.time += 1
        return -cost


def bounds() -> Tuple[float, float]:
    """Return the mean returns of an episode without any force, and with the best forces there are."""
    move, push = dynamics()
    state_cost, force_cost = costs()
    idle = best = np.zeros_like(move)
    for _ in range(STEPS):
        gain = np.linalg.solve(force_cost + push.T @ best @ push, push.T @ best @ move)
        best = state_cost + move.T @ best @ (move - push @ gain)
        idle = state_cost + move.T @ idle @ move
    spread = np.diag(np.repeat([1 / 3, 0.0], MASSES))  # the variance of a start that is uniform in [-1, 1)
    return -float(np.trace(idle @ spread)), -float(np.trace(best @ spread))


def score(episode_return: float) -> float:
    """Tell a mean return as a share of what is possible."""
    idle, best = bounds()
    return (episode_return - idle) / (best - idle)
