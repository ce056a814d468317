"""PyTorch on the device that is asked for: numbers go in as arrays and come back in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from kit import WINDOWS, ProbeSession, Unavailable, load_first, path_of, u

#: So many bytes are filled with NaN and given back, so that outputs lie in memory that held NaN.
POISON = 64 << 20


class Torch:
    """PyTorch with a device."""

    def __init__(self, s: ProbeSession) -> None:
        """Import it, and look for the device.

        Raises:
            Unavailable: there is no PyTorch, or it sees no CUDA device.
        """
        try:
            import torch
        except ImportError as error:
            msg = "no PyTorch here: %s" % error
            raise Unavailable(msg) from None
        self.torch, self.s = torch, s
        self.device = torch.device(s.device_wanted)
        if s.device_wanted == "cuda" and not torch.cuda.is_available():
            msg = "PyTorch %s sees no CUDA device" % torch.__version__
            raise Unavailable(msg)
        torch.manual_seed(s.seed)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        s.device = "CPU device of PyTorch %s" % torch.__version__
        if self.on_gpu:
            s.device = "%s by PyTorch %s" % (torch.cuda.get_device_name(0), torch.__version__)
            library, name = load_first(["nvcuda.dll"] if WINDOWS else ["libcuda.so.1"])
            s.files["driver"] = path_of(library, name)
        self.poison()

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a CUDA one."""
        return bool(self.device.type == "cuda")

    def poison(self) -> None:
        """Leave NaN in the memory that the next tensors get."""
        if self.on_gpu:
            held = [self.torch.full((POISON // 16,), float("nan"), device=self.device) for _ in range(4)]
            small = [
                self.torch.full((n,), float("nan"), device=self.device)
                for n in (128, 1024, 65536)
                for _ in range(64)
            ]
            del held, small

    def up(self, array: Any, dtype: Any = None) -> Any:
        """Bring an array to the device."""
        return self.torch.as_tensor(np.ascontiguousarray(array)).to(self.device, dtype)

    def down(self, tensor: Any) -> Any:
        """Bring a tensor back, in double precision."""
        found = tensor.detach().cpu()
        if found.dtype in (self.torch.float16, self.torch.bfloat16):
            found = found.float()
        array = found.numpy()
        if array.dtype.kind in "iub":
            return array
        return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)

    def u(self, dtype: Any) -> float:
        """The unit roundoff of one of its types."""
        names = {
            self.torch.bfloat16: 2.0**-8,
            self.torch.float16: u(np.float16),
            self.torch.float64: u(np.float64),
        }
        return float(names.get(dtype, u(np.float32)))

    def double(self, tensor: Any) -> Any:
        """The same numbers on the CPU in double precision, for references that PyTorch computes."""
        kind = self.torch.complex128 if tensor.is_complex() else self.torch.float64
        return tensor.detach().cpu().to(kind)
