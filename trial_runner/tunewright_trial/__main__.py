"""Lets `python -m tunewright_trial` run the program. What asks it to end while it imports must wait for an answer."""

import sys

from tunewright_trial.interruptions import hold_back_interruptions

if __name__ == "__main__":
    hold_back_interruptions()
    from tunewright_trial.entry import main

    sys.exit(main(sys.argv[1:]))
