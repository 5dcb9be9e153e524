"""Lowering: from a captured launch to every level of code that the compiler makes of it."""
