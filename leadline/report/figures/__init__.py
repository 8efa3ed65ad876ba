"""Study A's figures for people and other programs: charts, CSV tables, text and the report's section."""
