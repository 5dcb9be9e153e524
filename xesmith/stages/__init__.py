"""Stages: what proposes a change to a kernel, and in which order."""
