"""Who can be delegated to: agent definitions, where they are found, and what they are permitted."""
