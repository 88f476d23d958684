"""Files that go into a session's sandbox and come out of it.

session_files       uploads, downloads, results of cells
sandbox_files       files in the sandbox's folders, as values
kept_files          files and `given_variables` that come back when a sandbox is replaced
"""
