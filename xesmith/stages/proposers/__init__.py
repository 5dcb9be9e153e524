"""Proposers: who writes a stage's candidates. No proposal is believed; the cascade judges."""
