"""Every setting: its key, its layers, the files it comes from, and where things are."""
