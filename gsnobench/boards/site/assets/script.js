"use strict";
// Sorting and filtering of tables, and the choice of light or dark. The page is complete without it.
(function () {
  const root = document.documentElement;

  // A sandboxed frame has no storage: the choice then lasts as long as the page.
  function remembered() {
    try { return localStorage.getItem("gsnobench-theme"); } catch (error) { return null; }
  }
  function remember(theme) {
    try { localStorage.setItem("gsnobench-theme", theme); } catch (error) { /* nothing to keep it in */ }
  }
  const before = remembered();
  if (before === "light" || before === "dark") root.dataset.theme = before;

  function isDark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  function setUpTheme() {
    const button = document.querySelector("button.theme");
    const name = () => { button.textContent = isDark() ? "Light page" : "Dark page"; };
    button.hidden = false;
    name();
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      remember(root.dataset.theme);
      name();
    });
  }

  // ------------------------------------------------------------------------------------------------ sorting

  // What a cell is sorted by: its number, or its text; a cell without a value stays at the end either way.
  function key(row, column) {
    const cell = row.cells[column]; // a reason spans the columns that it has no number for
    const value = cell && cell.dataset.value;
    if (value === undefined || value === "") return null;
    const number = Number(value);
    return Number.isNaN(number) ? value : number;
  }
  function compare(one, other, sign) {
    if (one === null || other === null) return (one === null) - (other === null);
    if (typeof one === "number" && typeof other === "number") return sign * (one - other);
    return sign * String(one).localeCompare(String(other));
  }
  function sort(table, header) {
    const isRising = header.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) {
      if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
    }
    header.setAttribute("aria-sort", isRising ? "ascending" : "descending");
    for (const body of table.tBodies) {
      const rows = Array.from(body.rows, (row) => [key(row, header.cellIndex), row]);
      rows.sort((one, other) => compare(one[0], other[0], isRising ? 1 : -1));
      body.append(...rows.map((pair) => pair[1]));
    }
  }
  function setUpSorting(table) {
    for (const header of table.tHead.rows[0].cells) {
      const button = header.querySelector("button");
      if (button) button.addEventListener("click", () => sort(table, header));
    }
  }

  // ---------------------------------------------------------------------------------------------- filtering

  function filter(tools, table) {
    const words = tools.querySelector("input[type=search]").value.toLowerCase().split(/\s+/);
    const kinds = Array.from(tools.querySelectorAll("input[data-kind]:not(:checked)"), (box) => box.dataset.kind);
    let shown = 0;
    const rows = Array.from(table.tBodies).flatMap((body) => Array.from(body.rows));
    for (const row of rows) {
      const name = row.dataset.name.toLowerCase();
      row.hidden = kinds.includes(row.dataset.kind) || !words.every((word) => name.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    tools.querySelector("output").textContent = shown + " of " + rows.length + " rows";
  }
  function setUpFilter(tools) {
    const table = document.getElementById(tools.dataset.table);
    const update = () => filter(tools, table);
    tools.addEventListener("input", update);
    tools.hidden = false;
    update();
  }

  document.addEventListener("DOMContentLoaded", () => {
    setUpTheme();
    document.querySelectorAll("table.sortable").forEach(setUpSorting);
    document.querySelectorAll(".tools").forEach(setUpFilter);
  });
})();
