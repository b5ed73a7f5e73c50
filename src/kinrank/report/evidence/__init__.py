"""Vectors and what is right -> one page that shows what re-ranking does to them, and why."""

from kinrank.report.evidence.gathering import Evidence, gather
from kinrank.report.evidence.looks import Looks
from kinrank.report.evidence.page import evidence_page
from kinrank.report.evidence.writing import report_page

__all__ = ["Evidence", "Looks", "evidence_page", "gather", "report_page"]
