"""The user's script as text: its statements, the names in it, and the slice of it that a region needs."""
