"""Conversations of our own, and the script that makes them."""
