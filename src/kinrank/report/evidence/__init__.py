"""Report: one page that shows the effect of re-ranking on the user's vectors, and the reasons."""

from kinrank.report.evidence.evidence_data import Evidence, ReportInput, gather
from kinrank.report.evidence.method_runs import RunOptions
from kinrank.report.evidence.page_html import evidence_page, report_page

__all__ = ["Evidence", "ReportInput", "RunOptions", "evidence_page", "gather", "report_page"]
