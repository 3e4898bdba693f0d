"""The command line. `commands` has the commands, a theme a module; their shared parts stand here.

Everything but the commands that serve goes through the public client, so the command line can do
nothing that a user's own program can't.
"""
