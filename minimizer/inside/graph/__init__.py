"""Captured graphs: as JSON data, as copies that can be rerun, and the state that they were compiled in."""
