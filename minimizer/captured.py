"""``python -m minimizer.captured FOLDER [LOCK ARGS...]``: the name under which the dynamo backend starts `minimizer.from_backend`."""

from minimizer.from_backend import main

if __name__ == "__main__":
    main()
