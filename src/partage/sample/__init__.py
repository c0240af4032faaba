"""The recorded history of a real cluster that ships with the project (see README.md here)."""
