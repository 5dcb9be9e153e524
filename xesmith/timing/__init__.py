"""Times programs against each other on the device at hand (docs/11-bench.md).

Light by rule: standard library, torch, numpy, PyYAML; Triton where a program imports it. What the
evidence needs (pydantic, libcst, MLIR) is never imported here, so it runs where only a GPU is;
`imported` alone, which takes results back, needs pydantic.
"""
