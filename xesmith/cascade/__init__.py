"""The cascade: syntax, structure, lowering, correctness, performance, one module a level."""
