"""The doctor: whether a ledger and what it stands on keep the promises. Looks only; its checks judge plain facts."""

from chatsnapshot.doctor.diagnosis import Diagnosis, diagnose
from chatsnapshot.doctor.finding import Finding

__all__ = ["Diagnosis", "Finding", "diagnose"]
