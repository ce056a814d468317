"""The policies: what is held in PyTorch and ONNX Runtime, as data, and the few ways of holding it."""

from __future__ import annotations

import os
from functools import wraps
from typing import Any, Callable, Dict, Iterator, List, Tuple

#: Policy → setter and getter in ``torch._C``, and the value that stays. Every public way ends there:
#: ``enable_…_sdp``, ``sdp_kernel``, ``torch.nn.attention.sdpa_kernel``, ``cudnn.flags``.
SWITCHES = {
    "math-sdp": (
        ("_set_sdp_use_math", "_get_math_sdp_enabled", True),
        ("_set_sdp_use_flash", "_get_flash_sdp_enabled", False),
        ("_set_sdp_use_mem_efficient", "_get_mem_efficient_sdp_enabled", False),
        ("_set_sdp_use_cudnn", "_get_cudnn_sdp_enabled", False),
    ),
    "no-cudnn": (("_set_cudnn_enabled", "_get_cudnn_enabled", False),),
}
#: Policy → functions that compute on the CPU: a module below ``torch``, and names in it (``*``: all).
ON_CPU = {
    "fft-on-cpu": (("fft", "*"), ("", "stft istft"), ("Tensor", "stft istft")),
    "topk-on-cpu": (("", "topk"), ("Tensor", "topk")),
}
#: Policy → variables that PyTorch reads while it is imported.
BEFORE = {"no-jit": ("PYTORCH_JIT", "0")}
ORT = "no-ort-cuda"
NVIDIA_PROVIDERS = frozenset({"CUDAExecutionProvider", "TensorrtExecutionProvider"})


class Holding:
    """What one process holds: by policy whether it is in force, and how often something else was asked."""

    def __init__(self, wanted: Iterator[str]) -> None:
        """``wanted`` are the policies' names; unknown ones are kept, and never in force."""
        self.wanted = [name for name in dict.fromkeys(wanted) if name]
        self.asked: Dict[str, int] = {}
        self.tests: Dict[str, List[Callable[[], bool]]] = {}
        self.devices: Dict[str, Any] = {"build": None, "asked": 0, "count": None}
        self.torch: Any = None

    def before(self) -> None:
        """Set what PyTorch reads while it is imported."""
        for policy, (name, value) in BEFORE.items():
            if policy in self.wanted:
                os.environ[name] = value

    def hold_torch(self, torch: Any) -> None:
        """Hold everything that was asked for, in a PyTorch that was imported this moment."""
        self.torch = torch
        for policy in self.wanted:
            for setter, getter, value in SWITCHES.get(policy, ()):
                self._hold_switch(torch._C, policy, setter, getter, value)
            for module, names in ON_CPU.get(policy, ()):
                self._move(torch, policy, module, names)
        if "no-cudnn" in self.wanted:
            self._hold_cudnn(torch)
        if "no-jit" in self.wanted:
            self._test("no-jit", lambda: not torch.jit._state._enabled.enabled)
        self._listen(torch)

    def hold_onnxruntime(self, ort: Any) -> None:
        """Take NVIDIA's providers out of what is offered and out of what sessions are given."""
        if ORT not in self.wanted:
            return
        offered = ort.get_available_providers

        def available() -> List[str]:
            return [name for name in offered() if name not in NVIDIA_PROVIDERS]

        start = ort.InferenceSession.__init__

        @wraps(start)
        def init(session: Any, model: Any, *args: Any, **words: Any) -> None:
            args, words = self._without_cuda(args, words, available)
            start(session, model, *args, **words)

        ort.get_available_providers = available
        ort.InferenceSession.__init__ = init
        self._test(
            ORT, lambda: ort.InferenceSession.__init__ is init and ort.get_available_providers is available
        )

    def in_force(self) -> Dict[str, bool]:
        """Return by policy whether it is in force at this moment."""
        return {name: _all(self.tests.get(name, ())) for name in self.wanted if self._concerns(name)}

    def _concerns(self, policy: str) -> bool:
        """Whether the module that a policy is about was imported."""
        return policy in self.tests or (policy != ORT and self.torch is not None)

    def _test(self, policy: str, test: Callable[[], bool]) -> None:
        self.tests.setdefault(policy, []).append(test)

    def _count(self, policy: str) -> None:
        self.asked[policy] = self.asked.get(policy, 0) + 1

    def _hold_switch(self, c: Any, policy: str, setter: str, getter: str, value: bool) -> None:
        """Set a switch and keep it; a version without the switch does not have the thing itself."""
        original = getattr(c, setter, None)
        if original is None:
            return

        def held(asked: Any = value) -> None:
            if bool(asked) is not value:
                self._count(policy)
            original(value)

        held()
        self.asked.pop(policy, None)
        setattr(c, setter, held)
        read = getattr(c, getter, None)
        if read is not None:
            self._test(policy, lambda: bool(read()) is value)

    def _hold_cudnn(self, torch: Any) -> None:
        """Keep ``cudnn.enabled``: its property took hold of the setter while PyTorch was imported."""
        kind = type(torch.backends.cudnn)
        if "enabled" in vars(kind):
            c = torch._C
            kind.enabled = property(
                lambda _module: c._get_cudnn_enabled(), lambda _module, asked: c._set_cudnn_enabled(asked)
            )

    def _move(self, torch: Any, policy: str, module: str, names: str) -> None:
        """Let functions compute on the CPU and bring back what they return."""
        owner = getattr(torch, module, None) if module else torch
        listed = getattr(owner, "__all__", ()) if names == "*" else names.split()
        for name in listed:
            function = getattr(owner, name, None)
            if callable(function) and not isinstance(function, type):
                moved = on_cpu(function)
                setattr(owner, name, moved)
                self._test(policy, lambda o=owner, n=name, m=moved: getattr(o, n) is m)  # type: ignore[misc]  # bound now

    def _listen(self, torch: Any) -> None:
        """Note what PyTorch hears when it asks how many devices there are; it is not asked from here."""
        self.devices["build"] = getattr(torch.version, "cuda", None)
        original = getattr(torch._C, "_cuda_getDeviceCount", None)
        if original is None:
            return

        def count() -> Any:
            self.devices["asked"] += 1
            self.devices["count"] = 0
            self.devices["count"] = original()
            return self.devices["count"]

        torch._C._cuda_getDeviceCount = count

    def _without_cuda(
        self, args: Tuple[Any, ...], words: Dict[str, Any], available: Callable[[], List[str]]
    ) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
        """Return a session's arguments without NVIDIA's providers and their options."""
        words = dict(words)
        for name, value in zip(("sess_options", "providers", "provider_options"), args):
            words[name] = value
        rest = args[3:]
        providers = words.get("providers") or available()
        options = words.get("provider_options") or [{}] * len(providers)
        kept = [(p, o) for p, o in zip(providers, options) if _name(p) not in NVIDIA_PROVIDERS]
        if len(kept) < len(providers):
            self._count(ORT)
        words["providers"] = [p for p, _o in kept] or ["CPUExecutionProvider"]
        if words.get("provider_options"):
            words["provider_options"] = [o for _p, o in kept] or [{}]
        order = ("sess_options", "providers", "provider_options")
        return (tuple(words.pop(name, None) for name in order) + rest if rest else ()), words


def on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes on the CPU when a tensor of the GPU is among its arguments."""

    @wraps(function)
    def moved(*args: Any, **words: Any) -> Any:
        device = next((v.device for v in (*args, *words.values()) if _on_gpu(v)), None)
        if device is None:
            return function(*args, **words)
        out = words.pop("out", None)
        result = function(*map(_to_cpu, args), **{name: _to_cpu(value) for name, value in words.items()})
        return _back(result, device) if out is None else _into(result, out)

    return moved


def _on_gpu(value: Any) -> bool:
    return getattr(value, "is_cuda", False) is True


def _to_cpu(value: Any) -> Any:
    return value.cpu() if _on_gpu(value) else value


def _back(result: Any, device: Any) -> Any:
    """Move a tensor, or a named tuple of tensors, to the device it came from."""
    if isinstance(result, tuple):
        moved = [part.to(device) for part in result]
        return type(result)(moved)
    return result.to(device)


def _into(result: Any, out: Any) -> Any:
    """Copy a result into the tensors that the caller has named for it."""
    for part, target in zip(result, out) if isinstance(out, (tuple, list)) else ((result, out),):
        target.resize_(part.shape).copy_(part)
    return out


def _name(provider: Any) -> str:
    return str(provider[0] if isinstance(provider, (tuple, list)) else provider)


def _all(tests: Any) -> bool:
    """Whether there are tests and all of them hold; one that fails is no proof."""
    try:
        return bool(tests) and all(test() for test in tests)
    except Exception:
        return False
