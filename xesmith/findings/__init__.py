"""Findings: what the evidence says is wrong, explained by the IR and judged on outcomes."""
