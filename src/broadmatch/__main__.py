"""`python -m broadmatch` is the command `broadmatch`."""

from broadmatch.cli import main

if __name__ == "__main__":
    main()
