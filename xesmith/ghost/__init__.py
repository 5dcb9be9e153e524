"""The ghost device: real Triton launches captured and compiled where no GPU is present."""
