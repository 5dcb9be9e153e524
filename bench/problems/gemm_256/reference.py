import torch
import torch.nn as nn


LIBRARY = "torch.matmul"  # forward is this one call


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.matmul(A, B)


M = 4096
N = 4096
K = 4096


def get_inputs():
    A = torch.randn(M, K, device="xpu", dtype=torch.float16)
    B = torch.randn(K, N, device="xpu", dtype=torch.float16)
    return [A, B]


def get_init_inputs():
    return []
