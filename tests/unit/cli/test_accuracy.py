"""`tunewright accuracy` and `calibrate` as a person types them."""

import json
from pathlib import Path

from tests.unit.cli.test_bad_input import tunewright

DATA = Path(__file__).parents[2] / "data"
