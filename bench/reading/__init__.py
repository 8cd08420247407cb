"""The read path on conversations without an attack: what is withheld, and whether any answer is lost."""
