"""The tables, the connection to them, and how their content is kept small and shared."""
