"""Language models: requests and replies, endpoints, budgets, recordings. Knows no kernels."""
