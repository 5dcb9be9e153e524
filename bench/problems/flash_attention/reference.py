import torch
import torch.nn as nn
import torch.nn.functional as F


LIBRARY = "torch.nn.functional.scaled_dot_product_attention"  # forward is this one call


class Model(nn.Module):
    def forward(self, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(Q, K, V)


BATCH = 4
HEADS = 16
SEQ_LEN = 4096
HEAD_DIM = 64


def get_inputs():
    shape = (BATCH, HEADS, SEQ_LEN, HEAD_DIM)
    return [torch.randn(shape, device="xpu", dtype=torch.float16) for _ in range(3)]


def get_init_inputs():
    return []
