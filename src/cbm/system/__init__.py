"""What the operating system gives: processes and files, used with care."""
