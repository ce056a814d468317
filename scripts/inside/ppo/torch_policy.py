"""The policy on PyTorch: its own layers, gradients and Adam, on a CUDA device or the CPU."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np
import torch
from policy import Layer, Shape, matrices
from trainer import ADAM, STATISTICS, Batch, Settings

Array = np.ndarray


class TorchPolicy:
    """Actor, critic and Adam as any training script has them."""

    kind = np.float32

    def __init__(self, shape: Shape, settings: Settings, device: str) -> None:
        """Bring the first parameters to the device; products in full single precision."""
        self.shape, self.settings, self.steps = shape, settings, 0
        self.where = torch.device(device)
        torch.backends.cuda.matmul.allow_tf32 = False
        cuda = self.where.type == "cuda"
        self.device = torch.cuda.get_device_name(0) if cuda else "CPU device of PyTorch"
        row = shape.first(settings.seed)
        self.actor, self.critic = (self._network(layers, row) for layers in (shape.actor, shape.critic))
        self.log_std = torch.nn.Parameter(self._up(row[shape.log_std :]))
        self.all = [*self.actor.parameters(), *self.critic.parameters(), self.log_std]
        self.optimizer = torch.optim.Adam(self.all, lr=settings.rate, betas=ADAM[:2], eps=ADAM[2])
        self.batch: List[Any] = []
        self.sums = torch.zeros(len(STATISTICS), device=self.where)

    def _network(self, layers: List[Layer], row: Array) -> Any:
        """Make one network; PyTorch keeps weights as outputs by inputs."""
        parts: List[Any] = []
        for layer, (weights, biases) in zip(layers, matrices(row, layers)):
            linear = torch.nn.Linear(layer.inputs, layer.outputs).to(self.where)
            with torch.no_grad():
                linear.weight.copy_(self._up(weights.T))
                linear.bias.copy_(self._up(biases))
            parts += [linear, torch.nn.Tanh()]
        return torch.nn.Sequential(*parts[:-1])

    def _up(self, array: Array) -> Any:
        return torch.as_tensor(np.ascontiguousarray(array, np.float32)).to(self.where)

    # ---- what the trainer asks ----

    def act(self, seen: Array, noise: Array) -> Tuple[Array, Array, Array]:
        """Return forces, their log probabilities and the values of states."""
        with torch.no_grad():
            sight = self._up(seen)
            normal = torch.distributions.Normal(self.actor(sight), self.log_std.exp())
            forces = normal.mean + normal.stddev * self._up(noise)
            found = (forces, normal.log_prob(forces).sum(1), self.critic(sight)[:, 0])
        forces, log_probability, value = (x.cpu().numpy().astype(np.float64) for x in found)
        return forces, log_probability, value

    def begin(self, batch: Batch) -> None:
        """Bring a batch to the device."""
        self.batch = [self._up(part) for part in batch.parts()]
        self.sums = torch.zeros(len(STATISTICS), device=self.where)

    def learn(self, rows: Array) -> None:
        """Make one step of Adam on some rows of the batch."""
        settings, picked = self.settings, torch.as_tensor(rows).to(self.where)
        seen, forces, old, advantage, target = (part[picked] for part in self.batch)
        normal = torch.distributions.Normal(self.actor(seen), self.log_std.exp())
        log_ratio = normal.log_prob(forces).sum(1) - old
        ratio = log_ratio.exp()
        held = ratio.clamp(1 - settings.clip, 1 + settings.clip)
        surrogate = torch.min(ratio * advantage, held * advantage)
        off = self.critic(seen)[:, 0] - target
        value_loss = 0.5 * (off**2)
        loss = -surrogate.mean() + settings.value_weight * value_loss.mean()
        loss = loss - settings.entropy_weight * normal.entropy().sum(1).mean()
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.all, settings.largest_norm)
        self.optimizer.step()
        self.steps += 1
        with torch.no_grad():
            clipped = torch.where(advantage >= 0, ratio > 1 + settings.clip, ratio < 1 - settings.clip)
            parts = (ratio - 1 - log_ratio, value_loss, clipped.float(), torch.ones_like(ratio))
            self.sums += torch.stack([part.sum() for part in parts])

    def statistics(self) -> Array:
        """Return the sums over all rows learned from since ``begin``."""
        return np.asarray(self.sums.cpu().numpy(), np.float64)

    def state(self) -> Dict[str, Array]:
        """Return all that a checkpoint holds."""
        moments = [self.optimizer.state.get(p, {}) for p in self.all]
        kept = {"row": [p.detach() for p in self.all]}
        for name, key in (("first", "exp_avg"), ("second", "exp_avg_sq")):
            kept[name] = [m.get(key, torch.zeros_like(p)) for m, p in zip(moments, self.all)]
        return {name: self._row(parts) for name, parts in kept.items()}

    def restore(self, state: Dict[str, Array], steps: int) -> None:
        """Go on from a checkpoint."""
        named = {name: self._parts(state[name]) for name in ("row", "first", "second")}
        with torch.no_grad():
            for parameter, value, first, second in zip(self.all, *named.values()):
                parameter.copy_(value)
                moments = {"step": torch.tensor(float(steps)), "exp_avg": first, "exp_avg_sq": second}
                self.optimizer.state[parameter] = moments
        self.steps = steps

    def wait(self) -> None:
        """Wait for the device."""
        if self.where.type == "cuda":
            torch.cuda.synchronize()

    # ---- between PyTorch's parameters and a row of numbers ----

    def _row(self, parts: List[Any]) -> Array:
        """Lay parameters out as ``Shape`` does."""
        flat = [(p.T if p.dim() == 2 else p).contiguous().cpu().numpy().ravel() for p in parts]
        return np.concatenate(flat).astype(np.float64)

    def _parts(self, row: Array) -> List[Any]:
        """Take a row apart."""
        parts: List[Any] = []
        for layers in (self.shape.actor, self.shape.critic):
            for weights, biases in matrices(row, layers):
                parts += [self._up(weights.T), self._up(biases)]
        return [*parts, self._up(row[self.shape.log_std :])]
