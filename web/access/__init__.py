"""Who asks, and may they: the table of routes, ways to sign in, limits, and the audit log."""
