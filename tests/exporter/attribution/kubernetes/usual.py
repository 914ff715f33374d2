"""What is looked at, and how pods are named, where nobody has set anything: the defaults of the options."""

from dutycycle_exporter.attribution.kubernetes import Naming, Selection
from dutycycle_exporter.cli import read_settings

_settings = read_settings([])
SELECTION = Selection(_settings.kubernetes_resources)
NAMING = Naming(
    _settings.kubernetes_user_annotation, _settings.kubernetes_user_label, slurm=_settings.kubernetes_slurm_labels
)
