"""Evidence: what each level of a lowering says, one reader per level.

Readers read and never judge; findings, contracts and the cost model judge.
"""
