"""What a run leaves behind: rows of numbers and a directory on disk."""
