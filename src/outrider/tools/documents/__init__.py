"""Documents as Markdown. They are parsed in a process that has nothing but the document."""
