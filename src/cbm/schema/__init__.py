"""What a setting is: its type, its range, and how it is read strictly from JSON and from a command line."""
