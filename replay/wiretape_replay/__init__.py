"""The offline service: plays recordings back."""
