"""Probes of PyTorch at work: gradients, optimisers, mixed precision, graphs, streams, compiling."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
from kit import ProbeSession, Unavailable, u
from torch_kit import Torch

F32 = u(np.float32)


def network(torch: Any, seed: int, dtype: Any) -> Any:
    """A small network whose weights depend on the seed alone."""
    draw = np.random.default_rng(seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(20, 32),
        torch.nn.Tanh(),
        torch.nn.Linear(32, 16),
        torch.nn.GELU(),
        torch.nn.Linear(16, 3),
    ).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.as_tensor(draw.uniform(-0.3, 0.3, tuple(parameter.shape))))
    return model


def autograd(s: ProbeSession) -> None:
    """Gradients of a chain of operations are those that the CPU computes in double precision."""
    t = Torch(s)
    torch = t.torch
    x, y = s.floats(64, 20), s.floats(64, 3)
    grads = []
    for device, dtype in ((t.device, torch.float32), (torch.device("cpu"), torch.float64)):
        model = network(torch, 3, dtype).to(device)
        data = torch.as_tensor(x).to(device, dtype).requires_grad_(True)
        out = model(data)
        loss = ((out - torch.as_tensor(y).to(device, dtype)) ** 2).mean() + out.abs().log1p().sum() / 64
        loss.backward()
        grads.append([t.down(p.grad) for p in (*model.parameters(), data)] + [t.down(loss)])
    for number, (got, want) in enumerate(zip(*grads)):
        s.near(
            "gradient %d" % number if number < len(grads[0]) - 1 else "loss",
            got,
            want,
            128 * F32 * (np.abs(want).max() + 0.01),
        )
    z = t.up(s.floats(50), torch.float64).requires_grad_(True)
    (first,) = torch.autograd.grad((z**3).sum(), z, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), z)
    s.near("second derivative", t.down(second), 6 * t.down(z), 1e-14)


def optimiser(s: ProbeSession, name: str, options: Dict[str, Any]) -> None:
    """Thirty steps leave the weights that the CPU finds in double precision; the loss falls."""
    t = Torch(s)
    torch = t.torch
    x, y, found, losses = s.floats(128, 20), s.floats(128, 3), [], []
    for device, dtype in ((t.device, torch.float32), (torch.device("cpu"), torch.float64)):
        model = network(torch, 5, dtype).to(device)
        optim = getattr(torch.optim, name)(model.parameters(), **options)
        data, target = (torch.as_tensor(a).to(device, dtype) for a in (x, y))
        for step in range(30):
            optim.zero_grad()
            loss = ((model(data) - target) ** 2).mean()
            loss.backward()
            optim.step()
            if device == t.device and step in (0, 29):
                losses.append(float(loss))
        found.append([t.down(p) for p in model.parameters()])
    s.need("the loss falls", losses[1] < losses[0], losses)
    for number, (got, want) in enumerate(zip(*found)):
        # Thirty steps amplify rounding: measured on the CPU about 100 unit roundoffs, forty times as much is allowed.
        s.near("weights %d" % number, got, want, 4096 * F32)


def amp(s: ProbeSession) -> None:
    """Mixed precision: products in half, sums in single precision; the scaler skips steps with infinities."""
    t = Torch(s)
    torch = t.torch
    half = torch.float16 if t.on_gpu else torch.bfloat16
    model, data = network(torch, 9, torch.float32).to(t.device), t.up(s.floats(64, 20))
    with torch.autocast(t.device.type, dtype=half):
        product = model[0](data)
        loss = (model(data).float() ** 2).mean()
    s.equal("products are in half precision", str(product.dtype), str(half))
    exact = network(torch, 9, torch.float64)
    want = (exact(torch.as_tensor(t.down(data))) ** 2).mean()
    s.near("loss", t.down(loss), t.down(want), 16 * t.u(half) * (abs(float(want)) + 0.1))
    scaler = torch.amp.GradScaler(t.device.type, init_scale=1024.0)
    optim = torch.optim.SGD(model.parameters(), lr=0.1)
    before = [t.down(p) for p in model.parameters()]
    scaler.scale(loss).backward()
    next(model.parameters()).grad[0, 0] = float("inf")
    scaler.step(optim)
    scaler.update()
    s.need(
        "a step with an infinity is left out",
        all(np.array_equal(a, t.down(p)) for a, p in zip(before, model.parameters())),
        "it was not",
    )
    s.equal("and the scale is halved", scaler.get_scale(), 512.0)


def graphs(s: ProbeSession) -> None:
    """A captured step gives what it gives without capture, with new inputs each time."""
    t = Torch(s)
    torch = t.torch
    if not t.on_gpu:
        msg = "PyTorch's CPU device has no graphs"
        raise Unavailable(msg)
    model, still = network(torch, 4, torch.float32).to(t.device), torch.zeros(32, 20, device=t.device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            model(still)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        out = model(still)
    for turn in range(4):
        data = t.up(s.floats(32, 20))
        still.copy_(data)
        graph.replay()
        with torch.no_grad():
            want = network(torch, 4, torch.float64)(torch.as_tensor(t.down(data)))
        s.near("turn %d" % turn, t.down(out), t.down(want), 64 * F32)


def streams(s: ProbeSession) -> None:
    """Copies from pinned memory and kernels on two streams keep the order that events ask for."""
    t = Torch(s)
    torch = t.torch
    if not t.on_gpu:
        msg = "PyTorch's CPU device has no streams"
        raise Unavailable(msg)
    a = s.floats(1 << 18)
    pinned = torch.as_tensor(a).pin_memory()
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    for turn in range(10):
        event, end = torch.cuda.Event(), torch.cuda.Event(enable_timing=True)
        with torch.cuda.stream(first):
            x = pinned.to(t.device, non_blocking=True)
            for _ in range(20):
                x = x * 0.5 + 1
            event.record(first)
        with torch.cuda.stream(second):
            second.wait_event(event)
            y = x + x
            end.record(second)
        end.synchronize()
        want = a.astype(np.float64) * 0.5**20 + 2 * (1 - 0.5**20)
        s.near("turn %d" % turn, t.down(y), 2 * want, 64 * F32)


def compiled(s: ProbeSession) -> None:
    """A compiled function gives what it gives uncompiled; its gradient too."""
    t = Torch(s)
    torch = t.torch
    if t.on_gpu:
        try:
            import triton  # noqa: F401 - only to know whether it is here
        except ImportError as error:
            msg = "no Triton here: %s" % error
            raise Unavailable(msg) from None

    def function(a: Any, b: Any) -> Any:
        return (torch.nn.functional.gelu(a @ b) * a.sum(1, keepdim=True)).softmax(1)

    x, y = t.up(s.floats(64, 48)).requires_grad_(True), t.up(s.floats(48, 33))
    try:
        got = torch.compile(function)(x, y)
    except Exception as error:
        if "compiler" in str(error).lower() and not t.on_gpu:
            raise Unavailable(str(error)[:300]) from None
        raise
    exact = t.double(x).requires_grad_(True)
    want = function(exact, t.double(y))
    s.near("output", t.down(got), t.down(want), 512 * F32)
    (got**2).sum().backward()
    (want**2).sum().backward()
    s.near(
        "gradient", t.down(x.grad), t.down(exact.grad), 2048 * F32 * (np.abs(t.down(exact.grad)).max() + 1)
    )


def memory(s: ProbeSession) -> None:
    """More memory than there is raises; after it, what was there is unharmed and memory is given again."""
    t = Torch(s)
    torch = t.torch
    if not t.on_gpu:
        msg = "the CPU's memory is not PyTorch's to refuse"
        raise Unavailable(msg)
    kept = s.floats(1 << 20)
    x = t.up(kept)
    for turn in range(3):
        try:
            torch.empty(1 << 50, dtype=torch.uint8, device=t.device)
        except torch.cuda.OutOfMemoryError:
            s.need("refused %d" % turn, right=True)
        else:
            s.need("refused %d" % turn, right=False, detail="a pebibyte was given")
    s.equal("what was there", t.down(x), kept)
    s.equal("memory again", t.down(torch.ones(1 << 20, device=t.device).sum()), float(1 << 20))
    info = torch.cuda.mem_get_info()
    s.need("free and total", 0 < info[0] <= info[1], info)


PROBES = {
    "torch-autograd": autograd,
    "torch-sgd": lambda s: optimiser(s, "SGD", {"lr": 0.05, "momentum": 0.9}),
    "torch-adam": lambda s: optimiser(s, "Adam", {"lr": 0.003}),
    "torch-amp": amp,
    "torch-cuda-graph": graphs,
    "torch-streams": streams,
    "torch-compile": compiled,
    "torch-memory": memory,
}
