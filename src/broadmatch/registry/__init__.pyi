from .alerts import AlertMessage as AlertMessage
from .alerts import Alerts as Alerts
from .rules import AlertRule as AlertRule
from .rules import read_rules as read_rules
from .vetting.report import Finding as Finding
from .vetting.report import VettingReport as VettingReport
from .vetting.verdict import read_vetting_rules as read_vetting_rules
from .vetting.vet import vet_signal as vet_signal
