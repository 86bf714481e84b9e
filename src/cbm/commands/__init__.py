"""The verbs of `cbm`, as functions whose arguments become options."""
