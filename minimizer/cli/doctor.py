"""``minimizer doctor``: what this machine lacks."""
