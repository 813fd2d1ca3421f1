"""What a method reached over all problems and seeds, as text and as JSON. Called by the main program."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.search.profile_protocol import Found


@dataclass(frozen=True)
class Result:
    """All runs of one method at one model error; each has what was found after each count of trials."""

    protocol: str
    error: float
    method: str
    counts: Sequence[int]
    runs: Sequence[Sequence[Found]]

    def mean(self, index: int) -> float:
        """Return the mean share of the optimum after the count at `index`."""
        return fmean(run[index].share for run in self.runs)

    def worst(self, index: int) -> float:
        """Return the lowest share of the optimum after the count at `index`."""
        return min(run[index].share for run in self.runs)

    @property
    def reused(self) -> float:
        """Figures that needed no trial, per run."""
        return fmean(run[-1].reused for run in self.runs)

    def to_json(self) -> dict[str, object]:
        """Return the figures, and those of every run."""
        return {
            "protocol": self.protocol,
            "error": self.error,
            "method": self.method,
            "reused": self.reused,
            "after": {
                str(count): {
                    "mean": self.mean(index),
                    "worst": self.worst(index),
                    "runs": [run[index].share for run in self.runs],
                }
                for index, count in enumerate(self.counts)
            },
        }


def print_table(title: str, results: Sequence[Result]) -> None:
    """Print mean and worst share of the optimum, one line a method."""
    counts = results[0].counts
    print(f"{title}: mean / worst share of the optimum after n trials")
    print(f"  {'':20}" + "".join(f"{count:>17}" for count in counts) + f"{'reused':>9}")
    for item in results:
        cells = "".join(f"{item.mean(i):>9.4f} / {item.worst(i):.3f}" for i in range(len(counts)))
        print(f"  {item.method:20}{cells}{item.reused:>9.1f}{len(item.runs):>6}", flush=True)
