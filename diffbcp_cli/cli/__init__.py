"""The command line: parse, call, show. The only place for typer and rich."""
