"""What a script can see of itself between its compiled calls: a bounded walk over its objects, at chosen moments of a run."""
