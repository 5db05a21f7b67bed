"""Tables of logged rewards: one reader for files, frames, results of queries and dicts.

===============  ======================================================================================
``reading``      what others call: :func:`read` (summaries, for advice) and :func:`read_samples` (all rewards)
``files``        files, in pieces
``peek``         the first rows of a file, and which columns look like arms and rewards
``columns``      which columns are read, and how numbers and times are written
``cells``        from cells to numbers and names, with a reason where that fails
``account``      rewards on their way to their arms; what became of every row
``periods``      from rows to days, weeks or months
``log``          what a log says of each arm and of random parts of it
``summary``      exact counts of rewards while few differ, then a sketch
===============  ======================================================================================
"""

from pmbandits.logs.account import Account, Malformed
from pmbandits.logs.columns import PERIODS, Reading
from pmbandits.logs.log import ArmLog, Log, Rows, Sample
from pmbandits.logs.peek import Peek, peek
from pmbandits.logs.reading import read, read_samples
from pmbandits.logs.summary import PARTS, distinct, thin

__all__ = [
    "PARTS",
    "PERIODS",
    "Account",
    "ArmLog",
    "Log",
    "Malformed",
    "Peek",
    "Reading",
    "Rows",
    "Sample",
    "distinct",
    "peek",
    "read",
    "read_samples",
    "thin",
]
