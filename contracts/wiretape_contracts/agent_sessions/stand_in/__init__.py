"""A stand-in of the whole service: runs that scenarios script, on the same front as replays."""
