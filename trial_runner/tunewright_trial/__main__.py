"""Lets `python -m tunewright_trial` run the program."""

import sys

from tunewright_trial.entry import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
