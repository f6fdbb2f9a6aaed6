"""`wiretape probe`: run the cases of a contract against a service, record them, and reproduce broken rules."""
