"""No Thanks! and 6 nimmt! for people who train agents."""

__version__ = "0.1.0"
