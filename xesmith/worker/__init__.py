"""Worker processes: fork servers inside a toolchain's own Python, and their client.

Candidate code and the compiler run only in children of these servers.
"""
