"""Real processes over gloo."""
