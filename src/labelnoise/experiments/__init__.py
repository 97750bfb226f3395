"""Tables and figures of the paper as data: one TOML each, and the published numbers."""
