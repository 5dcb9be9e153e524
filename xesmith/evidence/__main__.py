"""`python -m xesmith.evidence` prints the JSON schema of an Evidence record."""

from __future__ import annotations

import json

from xesmith.evidence import schema

if __name__ == "__main__":
    print(json.dumps(schema(), indent=2))
