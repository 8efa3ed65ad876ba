"""Study A's figures of any table of results, systems x settings x repeats. Pure: values in, values out.

``table_of(plan, observations, response)`` makes the table of a study, ``read_rows(rows)`` that of foreign results;
``figures_of(table)`` makes the figures. docs/concepts/study-a.md explains them.
"""
