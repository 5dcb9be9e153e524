"""The engine: problems put through stages and cascade, from the baseline to the result."""
