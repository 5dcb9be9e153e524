import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        scale = in_features**-0.5
        weight = torch.randn(out_features, in_features) * scale
        bias = torch.randn(out_features) * scale
        self.weight = nn.Parameter(weight.to(device="xpu", dtype=torch.float16))
        self.bias = nn.Parameter(bias.to(device="xpu", dtype=torch.float16))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return F.linear(X, self.weight, self.bias).sum(dim=1)


BATCH = 4096
IN_FEATURES = 2048
OUT_FEATURES = 4096


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES, device="xpu", dtype=torch.float16)]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES]
