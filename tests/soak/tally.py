"""Counts and times, which threads and processes add up."""

import math
import threading
from collections import Counter

STEP = 1.04
LEAST = 1e-4


class Histogram:
    """Times in buckets, each 4 % wider than the one before."""

    def __init__(self):
        self.buckets, self.max = Counter(), 0.0

    def add(self, seconds):
        self.buckets[round(math.log(max(seconds, LEAST) / LEAST, STEP))] += 1
        self.max = max(self.max, seconds)

    def merge(self, other):
        self.buckets += other.buckets
        self.max = max(self.max, other.max)

    def count(self):
        return sum(self.buckets.values())

    def quantile(self, share):
        """The time within which this share of all lies; None without any."""
        left = share * self.count()
        for bucket in sorted(self.buckets):
            left -= self.buckets[bucket]
            if left <= 0:
                return min(LEAST * STEP**bucket, self.max)
        return None

    def text(self):
        times = [self.quantile(0.5), self.quantile(0.99), self.max or None]
        return " / ".join("-" if time is None else f"{time * 1000:.0f} ms" for time in times)


class Tally:
    """Counters by key, and histograms by name."""

    def __init__(self):
        self.lock, self.counts, self.times = threading.Lock(), Counter(), {}

    def count(self, *key, by=1):
        with self.lock:
            self.counts[key] += by

    def time(self, name, seconds):
        with self.lock:
            self.times.setdefault(name, Histogram()).add(seconds)

    def take(self):
        """All that was added since the last call."""
        with self.lock:
            taken = (self.counts, self.times)
            self.counts, self.times = Counter(), {}
        return taken

    def merge(self, taken):
        with self.lock:
            self.counts.update(taken[0])
            for name, times in taken[1].items():
                self.times.setdefault(name, Histogram()).merge(times)

    def of(self, *prefix):
        """The counts whose keys begin so, the largest first."""
        found = [(key[len(prefix):], n) for key, n in self.counts.items() if key[: len(prefix)] == prefix]
        return sorted(found, key=lambda item: -item[1])

    def histogram(self, name):
        return self.times.get(name, Histogram())
