"use strict";

// ---- sorting: up, down, and as it was measured ----
const next = { none: "ascending", ascending: "descending", descending: "none" };
const words = new Intl.Collator("en", { numeric: true });

function compare(kind, first, second) {
  if (kind === "word") return words.compare(first.textContent, second.textContent);
  return Number(first.dataset.value) - Number(second.dataset.value);
}

function empty(kind, cell) {
  return kind === "word" ? cell.textContent === "" : cell.dataset.value === undefined;
}

function sort(table, heading, original) {
  const order = next[heading.getAttribute("aria-sort")];
  for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
  heading.setAttribute("aria-sort", order);
  const { kind } = heading.dataset;
  const sign = order === "descending" ? -1 : 1;
  const rows = [...original];
  if (order !== "none") {
    rows.sort((first, second) => {
      const [a, b] = [first.cells[heading.cellIndex], second.cells[heading.cellIndex]];
      // What has no number comes last, whichever way.
      const missing = empty(kind, a) - empty(kind, b);
      return missing || (empty(kind, a) ? 0 : sign * compare(kind, a, b));
    });
  }
  table.tBodies[0].append(...rows);
}

for (const table of document.querySelectorAll("table.figures")) {
  const original = [...table.tBodies[0].rows];
  for (const heading of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sort(table, heading, original));
    heading.append(button);
    heading.setAttribute("aria-sort", "none");
  }
}

// ---- the filter: rows that have every word ----
const rows = [...document.querySelectorAll("table.figures tbody tr")];
const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
const [filter, behind, count] = ["filter", "behind", "count"].map((name) => document.getElementById(name));

function show() {
  const wanted = filter.value.toLowerCase().split(/\s+/);
  let shown = 0;
  for (const row of rows) {
    const rival = row.classList.contains("rival-faster");
    row.hidden = (behind.checked && !rival) || !wanted.every((word) => texts.get(row).includes(word));
    shown += !row.hidden;
  }
  count.textContent = shown === rows.length ? `${shown} rows` : `${shown} of ${rows.length} rows`;
}

filter.addEventListener("input", show);
behind.addEventListener("change", show);
document.getElementById("tools").hidden = false;
show();
