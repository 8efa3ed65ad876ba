"use strict";
// Sorts a table by the column whose heading is clicked.
for (const heading of document.querySelectorAll("th")) {
  heading.addEventListener("click", () => {
    const body = heading.closest("table").tBodies[0];
    const column = heading.cellIndex;
    const value = (row) => row.cells[column].textContent.trim();
    const rows = [...body.rows].sort((a, b) => value(a).localeCompare(value(b), undefined, { numeric: true }));
    if (heading.dataset.order === "up") {
      rows.reverse();
    }
    heading.dataset.order = heading.dataset.order === "up" ? "down" : "up";
    body.append(...rows);
  });
}
