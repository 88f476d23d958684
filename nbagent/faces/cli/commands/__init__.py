"""The commands and their flags, by what they are for; none imports what only one of them needs when it runs."""
