"""What the operating system provides: processes and files, used with care."""
