"""A cluster's nodes as an engine of a map: Ray places and watches, the journal decides."""
