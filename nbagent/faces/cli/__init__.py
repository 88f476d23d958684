"""The command line: options in, exit codes out.

app           the program `nbagent`; `program` has signals, streams and errors, `wrong_use` and `help` the words
commands/     the commands and their flags; `flags` makes those of a session, `durations` reads times
work          what commands that own a session share; `attendance` is whether a person is there
ask, execute  `run` and `demo`; `exec`
attach, chat  `attach` and `host`; `chat`
resume        `resume`; `sessions` lists sessions and their files, `manage` is `shell` and `clean`
export        `export`; `verify`, `rerun` and `log` for any notebook
doctor        `doctor`, with `selfcheck`; `models`, `audit` and `tools`
json_output   what `--json` prints
"""

EXIT_STOPPED = 130
"""The exit code after Ctrl-C, as shells have it."""
