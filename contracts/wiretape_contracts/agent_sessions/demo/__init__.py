"""`wiretape demo`: a tour with a service, a client and planted faults."""
