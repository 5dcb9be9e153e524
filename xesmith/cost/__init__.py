"""The static cost model: a prediction from evidence and device facts (docs/04-cost-model.md)."""

from xesmith.cost.model import derive
from xesmith.cost.order import order_key

__all__ = ["derive", "order_key"]
