"""The policy on a CUDA device: matrix products by cuBLAS, everything else by kernels of ours, in single precision."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))

from cuda_calls import Machine
from environment import MASSES, OBSERVED
from kernels import ACTED, PARTS, ROW, THREADS, module
from policy import Layer, Shape
from trainer import ADAM, STATISTICS, Batch, Settings

Array = np.ndarray
Pointer = ctypes.c_uint64
FLOAT = 4


def past(pointer: Pointer, floats: int) -> Pointer:
    """Return the address of a later element."""
    return Pointer(pointer.value + FLOAT * floats)


class Arithmetic:
    """Products and kernels on arrays of floats in device memory, row by row."""

    def __init__(self, machine: Machine) -> None:
        """Let the driver compile the kernels."""
        self.machine = machine
        self.kernels: Dict[str, ctypes.c_void_p] = {}
        self.module = ctypes.c_void_p()
        machine.driver.call("cuModuleLoadData", ctypes.byref(self.module), module().encode())
        self.one, self.zero = ctypes.c_float(1), ctypes.c_float(0)

    def run(self, name: str, blocks: int, *arguments: Any) -> None:
        """Start a kernel of ours with 256 threads a block."""
        if name not in self.kernels:
            function = ctypes.c_void_p()
            found = (ctypes.byref(function), self.module, name.encode())
            self.machine.driver.call("cuModuleGetFunction", *found)
            self.kernels[name] = function
        where = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
        size = (blocks, 1, 1, THREADS, 1, 1)
        self.machine.driver.call("cuLaunchKernel", self.kernels[name], *size, 0, None, where, None)

    def each(self, name: str, count: int, *arguments: Any) -> None:
        """Start a kernel with a thread for each of ``count`` elements."""
        self.run(name, (count + THREADS - 1) // THREADS, *arguments)

    def product(
        self,
        size: Tuple[int, int, int],
        a: Tuple[Pointer, int, bool],
        b: Tuple[Pointer, int, bool],
        c: Pointer,
        *,
        add: bool = False,
    ) -> None:
        """C = A B for row-major arrays: ``size`` is rows, columns, depth; a and b are (where, row length, turned).

        cuBLAS reads by columns, and so sees everything turned: it computes C' = B' A'.
        """
        rows, columns, depth = size
        call = [self.machine.handle, int(b[2]), int(a[2]), columns, rows, depth, ctypes.byref(self.one)]
        call += [b[0], b[1], a[0], a[1], ctypes.byref(self.one if add else self.zero), c, columns]
        self.machine.blas.call("cublasSgemm_v2", *call)


class DevicePolicy:
    """Actor, critic and Adam in the memory of a CUDA device."""

    kind = np.float32

    def __init__(self, machine: Machine, shape: Shape, settings: Settings) -> None:
        """Bring the first parameters there and take memory for all that is computed at a time."""
        rows = settings.largest
        self.machine, self.shape, self.settings, self.steps = machine, shape, settings, 0
        self.device, self.math = machine.device, Arithmetic(machine)
        self.held: List[Pointer] = []
        row = shape.first(settings.seed)
        self.row, self.slope = self._give(row), self._room(shape.parameters)
        self.first, self.second = self._give(0 * row), self._give(0 * row)
        self.values = {id(x): self._room(rows * x.outputs) for x in (*shape.actor, *shape.critic)}
        widest = max(x.outputs for x in (*shape.actor, *shape.critic))
        self.back = [self._room(rows * widest) for _ in range(2)]
        self.seen, self.noise = self._room(rows * OBSERVED), self._room(rows * MASSES)
        self.acted, self.widths = self._room(rows * ACTED), self._room(rows * MASSES)
        self.gathered, self.rows_sums = self._room(rows * ROW), self._room(rows * len(STATISTICS))
        self.ones, self.sums = self._give(np.ones(rows)), self._room(len(STATISTICS))
        self.parts, self.scale, self.picked = self._room(PARTS), self._room(1), self._room(rows)
        self.batch, self.batch_size = Pointer(), 0

    def close(self) -> None:
        """Give all memory back."""
        self.machine.free(self.held)
        self.machine.driver.call("cuModuleUnload", self.math.module)

    # ---- what the trainer asks ----

    def act(self, seen: Array, noise: Array) -> Tuple[Array, Array, Array]:
        """Return forces, their log probabilities and the values of states."""
        count = len(seen)
        self._put(self.seen, seen)
        self._put(self.noise, noise)
        self._forward(self.shape.actor, self.seen, OBSERVED, count)
        self._forward(self.shape.critic, self.seen, OBSERVED, count)
        self.math.each(
            "act", count, *self._heads()[:2], self.noise, *self._heads()[2:], self.acted, _u32(count)
        )
        found = np.empty((count, ACTED), np.float32)
        self.machine.read(found, self.acted)
        wide = found.astype(np.float64)
        return wide[:, :MASSES], wide[:, MASSES], wide[:, MASSES + 1]

    def begin(self, batch: Batch) -> None:
        """Bring a batch to the device, each step a row."""
        seen, forces, *columns = batch.parts()
        whole = np.concatenate([seen, forces, np.stack(columns, axis=1)], axis=1)
        if whole.shape[0] > self.batch_size:
            self.batch, self.batch_size = self._room(whole.size), whole.shape[0]
        self._put(self.batch, whole)
        self._put(self.sums, np.zeros(len(STATISTICS)))

    def learn(self, rows: Array) -> None:
        """Make one step of Adam on some rows of the batch."""
        count, settings, f = len(rows), self.settings, ctypes.c_float
        self.machine.write(self.picked, rows.astype(np.uint32))
        size = count * ROW
        self.math.each("gather", size, self.batch, self.picked, self.gathered, _u32(size), _u32(ROW))
        self._forward(self.shape.actor, self.gathered, ROW, count)
        self._forward(self.shape.critic, self.gathered, ROW, count)
        mean, value, bias, last, spread = self._heads()
        shares = (f(1 / count), f(settings.value_weight / count), f(settings.entropy_weight / count))
        given = (mean, value, self.gathered, bias, last, spread, self.widths, self.rows_sums, _u32(count))
        self.math.each("loss", count, *given, f(settings.clip), *shares)
        self._column_sums(self.rows_sums, len(STATISTICS), count, self.sums, add=True)
        self._column_sums(self.widths, MASSES, count, past(self.slope, self.shape.log_std))
        self._backward(self.shape.actor, mean, count)
        self._backward(self.shape.critic, value, count)
        self._step()

    def statistics(self) -> Array:
        """Return the sums over all rows learned from since ``begin``."""
        return self._get(self.sums, len(STATISTICS))

    def state(self) -> Dict[str, Array]:
        """Return all that a checkpoint holds."""
        named = {"row": self.row, "first": self.first, "second": self.second}
        return {name: self._get(where, self.shape.parameters) for name, where in named.items()}

    def restore(self, state: Dict[str, Array], steps: int) -> None:
        """Go on from a checkpoint."""
        for name, where in (("row", self.row), ("first", self.first), ("second", self.second)):
            self._put(where, state[name])
        self.steps = steps

    def wait(self) -> None:
        """Wait for the device."""
        self.machine.wait()

    # ---- memory ----

    def _room(self, floats: int) -> Pointer:
        return self._give(np.full(floats, np.nan))

    def _give(self, array: Array) -> Pointer:
        self.held.append(self.machine.upload(np.ascontiguousarray(array, np.float32)))
        return self.held[-1]

    def _put(self, where: Pointer, array: Array) -> None:
        self.machine.write(where, np.ascontiguousarray(array, np.float32))

    def _get(self, where: Pointer, floats: int) -> Array:
        found = np.empty(floats, np.float32)
        self.machine.read(found, where)
        return found.astype(np.float64)

    # ---- the arithmetic ----

    def _heads(self) -> Tuple[Pointer, ...]:
        """Return the outputs of both networks before their biases, these biases, and the spreads."""
        actor, critic = self.shape.actor[-1], self.shape.critic[-1]
        biases = (
            past(self.row, actor.biases),
            past(self.row, critic.biases),
            past(self.row, self.shape.log_std),
        )
        return (self.values[id(actor)], self.values[id(critic)], *biases)

    def _forward(self, layers: List[Layer], seen: Pointer, length: int, count: int) -> None:
        """Compute every layer; the last one without its biases."""
        here, width = seen, length
        for layer in layers:
            out, weights = self.values[id(layer)], past(self.row, layer.weights)
            size = (count, layer.outputs, layer.inputs)
            self.math.product(size, (here, width, False), (weights, layer.outputs, False), out)
            if layer is not layers[-1]:
                number, biases = count * layer.outputs, past(self.row, layer.biases)
                self.math.each("activate", number, out, biases, _u32(number), _u32(layer.outputs))
            here, width = out, layer.outputs

    def _backward(self, layers: List[Layer], output: Pointer, count: int) -> None:
        """Put the gradient of each layer into its place."""
        for number in reversed(range(len(layers))):
            layer = layers[number]
            first = number == 0
            here, width = (
                (self.gathered, ROW) if first else (self.values[id(layers[number - 1])], layer.inputs)
            )
            size = (layer.inputs, layer.outputs, count)
            there = past(self.slope, layer.weights)
            self.math.product(size, (here, width, True), (output, layer.outputs, False), there)
            self._column_sums(output, layer.outputs, count, past(self.slope, layer.biases))
            if not first:
                weights, turned = past(self.row, layer.weights), self.back[number % 2]
                size = (count, layer.inputs, layer.outputs)
                self.math.product(
                    size, (output, layer.outputs, False), (weights, layer.outputs, True), turned
                )
                number_of = count * layer.inputs
                self.math.each("back", number_of, turned, here, _u32(number_of))
                output = turned

    def _column_sums(self, a: Pointer, width: int, count: int, out: Pointer, *, add: bool = False) -> None:
        """Sum up the rows of an array."""
        self.math.product((1, width, count), (self.ones, count, False), (a, width, False), out, add=add)

    def _step(self) -> None:
        """Shorten the gradient to its largest norm and make one step of Adam."""
        f, settings, count = ctypes.c_float, self.settings, self.shape.parameters
        one, two, epsilon = ADAM
        self.steps += 1
        self.math.run("squares", PARTS, self.slope, self.parts, _u32(count))
        self.math.run("norm", 1, self.parts, self.scale, f(settings.largest_norm))
        rate = settings.rate / (1 - one**self.steps)
        numbers = (rate, 1 / (1 - two**self.steps), one, 1 - one, two, 1 - two, epsilon)
        where = (self.row, self.slope, self.first, self.second, self.scale, _u32(count))
        self.math.each("adam", count, *where, *(f(number) for number in numbers))


def _u32(value: int) -> ctypes.c_uint32:
    return ctypes.c_uint32(value)
