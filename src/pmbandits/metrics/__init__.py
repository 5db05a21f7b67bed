"""Preference metrics: distortions, sums of them, and the utility U_h of samples and distributions."""

from pmbandits.metrics.catalogue import Preference as Preference
from pmbandits.metrics.catalogue import Preferences as Preferences
from pmbandits.metrics.catalogue import as_metric as as_metric
from pmbandits.metrics.catalogue import as_preference as as_preference
from pmbandits.metrics.catalogue import preferences as preferences
from pmbandits.metrics.distortion import Distortion as Distortion
from pmbandits.metrics.distortion_function import Extremum as Extremum
from pmbandits.metrics.distortion_function import Holder as Holder
from pmbandits.metrics.families import *  # noqa: F403  (every family: their file lists them)
from pmbandits.metrics.family import Family as Family
from pmbandits.metrics.family import parameter as parameter
from pmbandits.metrics.registry import metric as metric
