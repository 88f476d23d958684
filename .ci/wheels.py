"""Lists the wheels of a pylock.toml on stdin that a kernel may be made of, as `sha256sum` does: hash and file name.

A notebook's lock says by this list, without asking an index, which wheel of each package its kernel had. It has those
for CPython on Linux with glibc, on the two kinds of processor that kernels run on.
"""

import re
import sys
import tomllib
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

FITS = re.compile(r".*-(?:py3|py2\.py3|cp3\d+)-(?:none|abi3|cp3\d+)-(?:any|.*manylinux.*_(?:x86_64|aarch64))\.whl")
FREE_THREADED = re.compile(r".*-cp3\d+t-.*")


def main() -> None:
    """Read, choose, print."""
    lines = set()
    for package in tomllib.load(sys.stdin.buffer)["packages"]:
        for wheel in package.get("wheels", ()):
            name = PurePosixPath(unquote(urlsplit(wheel["url"]).path)).name
            if FITS.fullmatch(name) and not FREE_THREADED.fullmatch(name):
                lines.add(f"{wheel['hashes']['sha256']}  {name}")
    print(*sorted(lines, key=lambda line: line.split()[1]), sep="\n")


main()
