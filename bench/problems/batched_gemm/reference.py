import torch
import torch.nn as nn


LIBRARY = "torch.bmm"  # forward is this one call


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.bmm(A, B)


BATCH = 32
M = 1024
N = 1024
K = 512


def get_inputs():
    A = torch.randn(BATCH, M, K, device="xpu", dtype=torch.float16)
    B = torch.randn(BATCH, K, N, device="xpu", dtype=torch.float16)
    return [A, B]


def get_init_inputs():
    return []
