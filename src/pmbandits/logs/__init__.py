"""Tables of logged rewards: one reader for files, frames, results of queries and dicts.

================  ======================================================================================
``reading``       what others call: :func:`read` (summaries, for advice) and :func:`read_samples` (all rewards)
``files``         files, in pieces
``sniff``         the first rows of a file, and which columns look like arms and rewards
``resolve``       what the user did not say: the columns, and how decimals are written
``conditions``    which rows are meant
``column_names``  what the name of a column says
``findings``      what is strange about the arms and rewards that were read: names, constants, placeholders
``whole_table``   what is strange about all columns: copies of rows, units that repeat, times of arms
``columns``       which columns are read, and how numbers and times are written
``parse``         from cells to numbers and names, with a reason where that fails
``row_report``    rewards on their way to their arms; what became of every row
``periods``       times, and from rows to days, weeks or months
``log``           what a log says of each arm and of random parts of it
``summary``       exact counts of rewards while few differ, then a sketch
================  ======================================================================================
"""

from pmbandits.logs.column_names import is_time_without_direction as is_time_without_direction
from pmbandits.logs.column_names import sounds_like_gain as sounds_like_gain
from pmbandits.logs.column_names import sounds_like_loss as sounds_like_loss
from pmbandits.logs.column_names import words_of_name as words_of_name
from pmbandits.logs.columns import ReadSettings as ReadSettings
from pmbandits.logs.findings import Finding as Finding
from pmbandits.logs.log import ArmLog as ArmLog
from pmbandits.logs.log import Log as Log
from pmbandits.logs.log import Rows as Rows
from pmbandits.logs.log import Sample as Sample
from pmbandits.logs.parse import PAIR_SIGN as PAIR_SIGN
from pmbandits.logs.periods import PERIODS as PERIODS
from pmbandits.logs.reading import read_log as read_log
from pmbandits.logs.reading import read_samples as read_samples
from pmbandits.logs.resolve import UnclearColumnsError as UnclearColumnsError
from pmbandits.logs.resolve import candidates_for_unclear_columns as candidates_for_unclear_columns
from pmbandits.logs.row_report import MalformedRow as MalformedRow
from pmbandits.logs.row_report import RowReport as RowReport
from pmbandits.logs.sniff import SniffedTable as SniffedTable
from pmbandits.logs.sniff import sniff as sniff
from pmbandits.logs.summary import N_PARTS as N_PARTS
from pmbandits.logs.summary import coarsen_points as coarsen_points
from pmbandits.logs.summary import merge_duplicates as merge_duplicates
