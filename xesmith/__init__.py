"""xesmith makes Triton kernels faster on Intel GPUs and believes only what the compiler shows."""

__version__ = "0.1.0"
