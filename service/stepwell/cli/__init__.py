"""The command line. One command a module in `commands`; what they share stands here.

Everything but the commands that serve goes through the public client, so the command line can do
nothing that a user's own program can't.
"""
