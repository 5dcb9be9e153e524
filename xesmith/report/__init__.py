"""Reports of a run, made from its ledger alone: terminal, Markdown and HTML."""
