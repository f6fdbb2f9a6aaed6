"""wiretape: record, judge and replay the event streams of the Agent Session Service."""

__version__ = "0.1.0"
