"""The embedded web server: waitress, what stands before it, and how it is started."""
