"""Users, tokens and sessions, projects with their members, and the audit log."""
