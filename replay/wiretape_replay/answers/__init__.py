"""What the contract says itself: errors, keys and limits."""
