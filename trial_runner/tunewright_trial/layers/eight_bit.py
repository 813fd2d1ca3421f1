"""Matrix products in 8-bit floats, scaled by tensor: what `precision: fp8` means here. Used by the linear layers.

Values stay bf16 and are cast at every use, with the scale of the moment (Micikevicius et al. 2022, arXiv 2209.05433):
e4m3 for activations and weights, e5m2 for gradients, products summed in fp32 by torch's scaled matrix product.
"""

import torch
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from tunewright_trial.failures import unsupported

_SMALLEST = 1e-12
_NVIDIA_CAPABILITY = (8, 9)


def check_eight_bit(device: torch.device) -> None:
    """Raise Unsupported where the device has no 8-bit matrix products."""
    if device.type != "cuda":
        return  # torch computes them on CPUs, exactly if not fast
    properties = torch.cuda.get_device_properties(device)
    name = str(getattr(properties, "gcnArchName", "")).split(":")[0]
    capability = (properties.major, properties.minor)
    has = name in ("gfx942", "gfx950") if torch.version.hip else capability >= _NVIDIA_CAPABILITY
    if not has:
        raise unsupported(f"precision fp8 does not run on {name or torch.cuda.get_device_name(device)}: use bf16")


def linear(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eight_bit: bool) -> torch.Tensor:
    """Return hidden·weightᵀ + bias, the product in 8 bits if asked for and if there are rows at all."""
    if not eight_bit or hidden.numel() == 0:
        return functional.linear(hidden, weight, bias)
    product: torch.Tensor = _ScaledProduct.apply(hidden.flatten(0, -2), weight)
    product = product.unflatten(0, hidden.shape[:-1])
    return product if bias is None else product + bias


class _ScaledProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(rows, weight)
        return _product(_cast(rows, _value_type(rows)), _cast(weight, _value_type(rows)), rows.dtype)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        rows, weight = ctx.saved_tensors
        arriving = _cast(gradient, _gradient_type(gradient))
        of_rows = of_weight = None
        if ctx.needs_input_grad[0]:
            values, scale = _cast(weight, _value_type(rows))
            of_rows = _product(arriving, (values.t().contiguous(), scale), rows.dtype)
        if ctx.needs_input_grad[1]:
            values, scale = _cast(rows, _value_type(rows))
            turned = (arriving[0].t().contiguous(), arriving[1])
            of_weight = _product(turned, (values.t().contiguous(), scale), weight.dtype)
        return of_rows, of_weight


_Scaled = tuple[torch.Tensor, torch.Tensor]


def _product(left: _Scaled, right: _Scaled, dtype: torch.dtype) -> torch.Tensor:
    """Return left·rightᵀ: both are row-major, which makes the second column-major after turning, as kernels want."""
    (one, one_scale), (other, other_scale) = left, right
    return torch._scaled_mm(one, other.t(), scale_a=one_scale, scale_b=other_scale, out_dtype=dtype)


def _cast(value: torch.Tensor, kind: torch.dtype) -> _Scaled:
    scale = value.abs().amax().float().clamp(min=_SMALLEST) / torch.finfo(kind).max
    return (value.float() / scale).to(kind).contiguous(), scale


def _is_fnuz(value: torch.Tensor) -> bool:
    """CDNA 3 has formats of its own, without negative zero."""
    if not torch.version.hip or value.device.type != "cuda":
        return False
    return str(torch.cuda.get_device_properties(value.device).gcnArchName).startswith("gfx942")


def _value_type(value: torch.Tensor) -> torch.dtype:
    return torch.float8_e4m3fnuz if _is_fnuz(value) else torch.float8_e4m3fn


def _gradient_type(value: torch.Tensor) -> torch.dtype:
    return torch.float8_e5m2fnuz if _is_fnuz(value) else torch.float8_e5m2
