"""HTTP with clients: requests, lines, answers, and who listens."""
