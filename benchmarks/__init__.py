"""The benchmark: Outrider beside its peers, against the same scripted model server."""
