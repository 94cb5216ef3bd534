"""``python -m minimizer`` is the ``minimizer`` command, for environments whose scripts are not on the PATH."""

from minimizer.cli import main

if __name__ == "__main__":
    main()
