"""What published programs ask of PyTorch, answered as on a machine with the device."""

import torch
import torch.nn.functional as F
from torch import nn

x = torch.randn(4096, 4096, device="xpu", dtype=torch.float16)
assert x.is_xpu
assert not x.is_cuda
assert not x.is_cpu
assert x.get_device() == 0
assert x.device == torch.device("xpu", 0)
assert x.device.type == "xpu"
assert torch.xpu.is_available()
assert torch.xpu.device_count() == 1
assert torch.xpu.current_device() == 0
assert torch.accelerator.current_accelerator().type == "xpu"
assert torch.xpu.get_device_properties(0).gpu_eu_count == 256
assert torch.cuda.is_available()
torch.xpu.set_device(0)
torch.xpu.synchronize()
torch.accelerator.synchronize()
with torch.xpu.stream(torch.xpu.Stream()):
    event = torch.xpu.Event(enable_timing=True)
    event.record()
    event.synchronize()

# Moves, factories and contexts.
assert x.cpu().shape == x.shape
assert x.to(device="xpu:0", dtype=torch.float32).dtype == torch.float32
assert torch.zeros(3).xpu().is_xpu
assert torch.zeros(3).cuda().is_xpu
assert x.new_zeros(3).is_xpu
assert torch.empty_like(x).is_xpu
with torch.device("xpu"):
    assert torch.ones(3).device.type == "xpu"
generator = torch.Generator(device="xpu").manual_seed(3)
torch.randn(8, generator=generator, device="xpu")
with torch.autocast("xpu", dtype=torch.float16):
    assert (x.float() @ x.float()).dtype == torch.float16

# Shapes, strides and types of large results, without the work.
y = (x * 2.0 + x[0]).float().softmax(-1) @ x.float()
assert y.shape == (4096, 4096)
assert y.dtype == torch.float32
assert (x > 0).dtype == torch.bool
assert torch.cat([x, x], dim=1).shape == (4096, 8192)
assert (x.T + x.T).stride() == x.T.stride()
values, indices = x.max(dim=1)
assert values.shape == (4096,)
assert indices.dtype == torch.int64
assert torch.full((4096, 4096), 7).dtype == torch.int64
assert torch.randint(0, 5, (4096, 4096)).dtype == torch.int64
assert torch.empty_strided((4096, 1024), (1, 4096)).stride() == (1, 4096)
heads = [torch.randn(4, 16, 4096, 64, device="xpu", dtype=torch.float16) for _ in range(3)]
assert F.scaled_dot_product_attention(*heads).shape == (4, 16, 4096, 64)
convolution = nn.Conv2d(64, 128, 3, padding=1).to("xpu", memory_format=torch.channels_last)
image = torch.randn(16, 64, 128, 128, device="xpu")
assert convolution(image).shape == (16, 128, 128, 128)
assert nn.Linear(8192, 8192, device="xpu", dtype=torch.float16)(x.repeat(1, 2)).shape[1] == 8192
assert torch.add(x, x, out=x) is x
assert x.zero_().copy_(x + 1).add_(1) is x

# Small values are real: a host reads sizes and offsets from them.
lengths = torch.tensor([1, 2, 3], device="xpu")
assert lengths.cumsum(0).tolist() == [1, 3, 6]
assert lengths.sum().item() == 6
assert torch.allclose(y, y + 3)
torch.testing.assert_close(x, x + 1)
torch.set_default_device("xpu")
assert torch.arange(10)[3].item() == 3


# Kernels with a backward of their own.
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


leaf = torch.randn(4096, 4096, device="xpu", requires_grad=True)
Twice.apply(leaf).sum().backward()
assert leaf.grad.shape == leaf.shape
