"""Tables of logged rewards: one reader for files, frames, results of queries and dicts.

===============  ======================================================================================
``reading``      what others call: :func:`read` (summaries, for advice) and :func:`read_samples` (all rewards)
``files``        files, in pieces
``sniff``        the first rows of a file, and which columns look like arms and rewards
``columns``      which columns are read, and how numbers and times are written
``parse``        from cells to numbers and names, with a reason where that fails
``row_report``   rewards on their way to their arms; what became of every row
``periods``      from rows to days, weeks or months
``log``          what a log says of each arm and of random parts of it
``summary``      exact counts of rewards while few differ, then a sketch
===============  ======================================================================================
"""

from pmbandits.logs.columns import PERIODS, ReadSettings
from pmbandits.logs.log import ArmLog, Log, Rows, Sample
from pmbandits.logs.reading import read, read_samples
from pmbandits.logs.row_report import MalformedRow, RowReport
from pmbandits.logs.sniff import SniffedTable, sniff
from pmbandits.logs.summary import N_PARTS, coarsen, merge_duplicates

__all__ = [
    "N_PARTS",
    "PERIODS",
    "ArmLog",
    "Log",
    "MalformedRow",
    "ReadSettings",
    "RowReport",
    "Rows",
    "Sample",
    "SniffedTable",
    "coarsen",
    "merge_duplicates",
    "read",
    "read_samples",
    "sniff",
]
