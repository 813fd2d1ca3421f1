"""The operator's `/metrics` at one moment, and what was counted between two moments. Used by every scenario."""

import urllib.request
from collections import Counter
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.operator.figures import Buckets

Labels = tuple[tuple[str, str], ...]
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class Scrape:
    """Every series with its value."""

    series: dict[tuple[str, Labels], float]

    @classmethod
    def of(cls, text: str) -> "Scrape":
        """Read the text format of Prometheus."""
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        return cls({(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in samples})

    @classmethod
    def at(cls, port: int) -> "Scrape":
        """Ask an operator of this machine."""
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=_TIMEOUT_SECONDS) as answer:
            return cls.of(answer.read().decode())

    def since(self, earlier: "Scrape") -> "Scrape":
        """Return what counters and histograms grew by."""
        return Scrape({key: value - earlier.series.get(key, 0.0) for key, value in self.series.items()})

    def total(self, name: str, **labels: str) -> float:
        """Sum the series of a name that have these labels."""
        wanted = set(labels.items())
        return sum(value for (found, own), value in self.series.items() if found == name and wanted <= set(own))

    def by(self, name: str, *labels: str) -> dict[str, float]:
        """Sum the series of a name by the values of some labels, largest first; without what is zero."""
        sums: Counter[str] = Counter()
        for (found, own), value in self.series.items():
            if found == name and value:
                sums[" ".join(dict(own)[label] for label in labels)] += value  # type: ignore[assignment]
        return dict(sums.most_common())

    def buckets(self, name: str) -> Buckets:
        """Return a histogram without labels of its own."""
        found = [
            (float(dict(own)["le"]), value) for (key, own), value in self.series.items() if key == f"{name}_bucket"
        ]
        return sorted(found)
