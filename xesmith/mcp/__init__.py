"""The MCP server: xesmith's judgement as tools of a language model's client."""
