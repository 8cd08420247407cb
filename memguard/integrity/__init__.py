"""The integrity core: pure state machines, bytes in, verified objects or errors out."""
