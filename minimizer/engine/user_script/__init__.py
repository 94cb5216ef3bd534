"""The user's script as text: its statements, its names, and the slice of it (the prelude) that a window needs."""
