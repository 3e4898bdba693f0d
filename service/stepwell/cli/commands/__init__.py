"""The commands, one a module. `stepwell.cli.app` imports the one that is asked for, and no other."""
