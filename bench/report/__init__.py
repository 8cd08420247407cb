"""Run folders and what is printed from them. A report is a pure function of a run folder."""
