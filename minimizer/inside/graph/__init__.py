"""Captured graphs: as data, as copies that can be run, and with the state that they were compiled in."""
