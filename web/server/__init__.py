"""The embedded web server: waitress, its front, and its start."""
