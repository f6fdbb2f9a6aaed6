"""What differs between two recordings, or between two connections: `recordings.compare` does all of it."""
