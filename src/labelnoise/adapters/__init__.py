"""Drop-in use in other people's code."""
