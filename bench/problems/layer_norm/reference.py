import torch
import torch.nn as nn
import torch.nn.functional as F


LIBRARY = "torch.nn.functional.layer_norm"  # forward is this one call


class Model(nn.Module):
    def __init__(self, features: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        weight = 1.0 + 0.1 * torch.randn(features)
        bias = 0.1 * torch.randn(features)
        self.weight = nn.Parameter(weight.to(device="xpu", dtype=torch.float16))
        self.bias = nn.Parameter(bias.to(device="xpu", dtype=torch.float16))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(X, self.weight.shape, self.weight, self.bias, self.eps)


ROWS = 8192
FEATURES = 4096


def get_inputs():
    return [torch.randn(ROWS, FEATURES, device="xpu", dtype=torch.float16)]


def get_init_inputs():
    return [FEATURES]
