"""What calls do by their names, where code is read without its data. Pure."""

from __future__ import annotations

import re

PURE_MODULES = frozenset(
    "math cmath statistics json datetime decimal fractions itertools functools operator collections re string textwrap "
    "calendar copy ast base64 struct io types typing enum dataclasses binascii codecs zlib html urllib pprint "
    "time locale".split()
)
"""Modules that make nothing but constants of constants."""
LIBRARIES = frozenset(
    "numpy pandas polars matplotlib scipy sklearn statsmodels duckdb seaborn sqlite3 plotly pyarrow os sys random "
    "pathlib importlib subprocess logging warnings csv pickle glob shutil tempfile uuid secrets inspect builtins "
    "IPython".split()
)
"""Other modules that no cell has written."""
MAKES = frozenset(
    "DataFrame LazyFrame Series array asarray Index from_dict from_records from_dicts dumps full zeros ones arange "
    "linspace float64 float32 int64 int32 add sum prod mean median max min dot concat Timestamp Timedelta date_range "
    "to_datetime to_timedelta Markdown HTML Path".split()
)
"""What of other modules makes constants of constants too."""
LISTS = frozenset(
    "DataFrame LazyFrame Series array asarray Index from_dict from_dicts from_records Markdown HTML".split()
)
"""Those that hold what they are given as it is."""
SHOWING = re.compile(r"\w+$|(?:pprint|logging|sys|builtins|IPython|warnings)\b")
"""Names of functions that show if their last part is one of `SHOWS`."""
RENAMES = frozenset(("replace", "replace_strict", "map"))
"""Calls that give values of data other names, by a dictionary."""
PASSES_ON = RENAMES | frozenset(
    "with_row_index with_row_count enumerate count range arange int_range linspace get next reset_index shift "
    "lit literal with_columns select agg assign insert then otherwise where mask fill_null fillna fill_nan clip full "
    "full_like repeat max min add mul fill reindex join concat Series DataFrame int float str array append extend sum "
    "abs round format coalesce map_elements apply update __class__ type".split()
)
"""Calls that hand on the numbers that they are given beside data; others only choose by them, or reckon with them."""
COMPARES = frozenset(
    "is_in isin is_between between eq ne lt le gt ge get_group cut qcut filter query index count startswith endswith "
    "set_index".split()
)
"""Calls that only compare with what they are given."""
SAVES = re.compile(
    r"write|to_(?!list|numpy|pandas|dict|string|frame|period|series)|save|sink|dump|putenv|insert|execute|copy|update|setdefault"
)
"""Names of what writes values down, from where others may read them."""
READS = re.compile(r"read|open|load|get|recv|environ|scan|connect|execute|sql")
"""Names of what reads data, or what was written down."""
NAMES = frozenset("col get_column over group_by groupby sort sort_values unpivot melt pivot drop explode".split())
"""Calls that are given names of columns, and fail if there are none of these names."""
CUTS = re.compile(
    r"extract|split|partition|findall|finditer|search|match|sub$|groups?$|strip|remove|slice|replace|translate|json|"
    r"eval|decode|reverse"
)
"""Names of what may make another text of a part of one."""
TAKES_OFF = re.compile(r"sub$|strip|remove|replace")
"""Names of what leaves a text whole but for what it takes off it."""
CLEANS = re.compile(r"(?:[^\w\\[\]()|*+?.{}^$-]|\\s\+?|\\?[.$])*")
"""What may be taken off a text that leaves its digits, letters and hyphens: spaces, points, signs of currencies."""
BOUNDS = frozenset("is_between between gt ge lt le eq".split())
"""Calls that compare data with what they are given."""
SELECTS = re.compile(
    r"(?:head|tail|limit|sample|nlargest|nsmallest|(?:top|bottom)_k|most_common|(?:nan)?(?:quantile|percentile)|"
    r"rolling\w*|ewm\w*|shift|diff|resample|gather_every|islice|seed|default_rng|RandomState)$"
)
"""Names of what is told how many it gives, or which share."""
FILES = re.compile(r"read|open|scan|load(?!s)")
"""Names of what reads a file that it is given by its name."""
TABLES = re.compile(r"(?:read|scan)_")
"""Names of what reads tables, and fails if there is none of the name that it is given."""
DRAWS = frozenset("randint randrange uniform gauss triangular integers choice getrandbits randbits".split())
"""What draws one number by chance, if it isn't given how many."""
