"""What is seen of a script while it runs: its calls, exceptions and processes, and how much of it was compared."""
