"""What can be asked of a service over HTTP."""
