"""The policy's shape: two networks of three layers each, and a width for every force, in one row of numbers.

The actor's last layer gives the mean of each force, ``log_std`` its spread (the same in every state); the critic
gives the value. Hidden layers end in tanh. The default has 2,216,347 parameters, as many as the policy of
the published benchmark of 2026-09-13, with layers chosen here:

    actor   27 x 1152 + 1152    1152 x 832 + 832     832 x 13 + 13     1,002,381
    critic  27 x 1152 + 1152    1152 x 1024 + 1024   1024 x 1 + 1      1,213,953
    log_std 13                                                                13
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Tuple

import numpy as np
from environment import MASSES, OBSERVED

Array = np.ndarray
#: Hidden layers of actor and critic.
NETWORKS: Dict[str, Tuple[Tuple[int, int], Tuple[int, int]]] = {
    "default": ((1152, 832), (1152, 1024)),
    "small": ((32, 24), (32, 24)),
}
FIRST_LOG_STD = -1.0


class Layer:
    """One layer: where its weights (inputs by outputs, row by row) and its biases begin."""

    def __init__(self, inputs: int, outputs: int, start: int) -> None:
        """Place it."""
        self.inputs, self.outputs, self.weights = inputs, outputs, start
        self.biases = start + inputs * outputs
        self.end = self.biases + outputs


class Shape:
    """Where everything lies in the row of parameters."""

    def __init__(self, network: str) -> None:
        """Lay out one of ``NETWORKS``."""
        actor, critic = NETWORKS[network]
        self.name = network
        self.actor = list(_layers((OBSERVED, *actor, MASSES), 0))
        self.critic = list(_layers((OBSERVED, *critic, 1), self.actor[-1].end))
        self.log_std = self.critic[-1].end
        self.parameters = self.log_std + MASSES

    def first(self, seed: int) -> Array:
        """Draw the first parameters, in double precision: small outputs, nothing in the biases."""
        rng = np.random.default_rng([seed, 0])
        row = np.zeros(self.parameters)
        for layers, last in ((self.actor, 0.01), (self.critic, 1.0)):
            for layer in layers:
                scale = (last if layer is layers[-1] else 1.0) / np.sqrt(layer.inputs)
                row[layer.weights : layer.biases] = scale * rng.standard_normal(layer.inputs * layer.outputs)
        row[self.log_std :] = FIRST_LOG_STD
        return row.astype(np.float32).astype(np.float64)  # the same start in both precisions


def _layers(widths: Tuple[int, ...], start: int) -> Iterator[Layer]:
    for inputs, outputs in zip(widths, widths[1:]):
        layer = Layer(inputs, outputs, start)
        yield layer
        start = layer.end


def matrices(row: Array, layers: List[Layer]) -> List[Tuple[Array, Array]]:
    """Return views of each layer's weights and biases in a row of numbers."""
    return [(row[x.weights : x.biases].reshape(x.inputs, x.outputs), row[x.biases : x.end]) for x in layers]
