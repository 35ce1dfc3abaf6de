"use strict";
// Tables: sorting, filtering, groups of columns, and rows as cards on a phone.
(function () {
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
  function sort(table, header, isRising) {
    for (const other of table.tHead.rows[0].cells) {
      if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
    }
    header.setAttribute("aria-sort", isRising ? "ascending" : "descending");
    for (const body of table.tBodies) {
      const rows = Array.from(body.rows, (row) => [key(row, header.cellIndex), row]);
      rows.sort((one, other) => compare(one[0], other[0], isRising ? 1 : -1));
      body.append(...rows.map((pair) => pair[1]));
    }
    table.dispatchEvent(new Event("sorted"));
  }
  function click(table, header) {
    sort(table, header, header.getAttribute("aria-sort") !== "ascending");
    document.dispatchEvent(new Event("state"));
  }
  // a label that is folded breaks before the window of a task, not inside it
  function label(header) {
    return heading(header).replace(/-/g, "\u2011").replace("@", "\u200b@");
  }
  function heading(header) {
    const button = header.querySelector("button");
    return (button || header).textContent.trim();
  }
  function restoreOrder(table) {
    for (const header of table.tHead.rows[0].cells) {
      if (header.hasAttribute("aria-sort")) header.setAttribute("aria-sort", "none");
    }
    for (const body of table.tBodies) body.append(...Array.from(body.rows).sort((one, other) => one.dataset.order - other.dataset.order));
  }
  function setUpTable(table) {
    Array.from(table.querySelectorAll("tbody tr")).forEach((row, index) => { row.dataset.order = index; });
    const headers = Array.from(table.tHead.rows[0].cells);
    for (const header of headers) {
      const button = header.querySelector("button");
      if (button) button.addEventListener("click", () => click(table, header));
    }
    // a phone shows a row as a card, in which every number needs its heading
    for (const row of Array.from(table.tBodies).flatMap((body) => Array.from(body.rows))) {
      for (const cell of row.cells) if (cell.colSpan === 1) cell.dataset.label = label(headers[cell.cellIndex]);
    }
    table.classList.add("cards");
  }

  // ------------------------------------------------------------------------------------------ filtering

  function filter(tools) {
    const words = tools.querySelector("input[type=search]").value.toLowerCase().split(/\s+/);
    const kinds = Array.from(tools.querySelectorAll("input[data-kind]:not(:checked)"), (box) => box.dataset.kind);
    const tables = Array.from(document.querySelectorAll("table.sortable"));
    let shown = 0, all = 0;
    for (const row of tables.flatMap((table) => Array.from(table.querySelectorAll("tbody tr[data-name]")))) {
      const name = row.dataset.name.toLowerCase();
      row.hidden = kinds.includes(row.dataset.kind) || !words.every((word) => name.includes(word));
      if (row.closest("table") !== tables[0]) continue;
      all += 1;
      shown += row.hidden ? 0 : 1;
    }
    for (const box of tools.querySelectorAll("input[data-group]")) {
      for (const table of tables) table.classList.toggle("hide-" + box.dataset.group, !box.checked);
    }
    const count = shown + " of " + all + " rows";
    tools.querySelector("output").textContent = shown || !all ? count : "No row matches. Clear the filter to see all.";
  }
  function setUpOrder(tools, table) {
    const choice = tools.querySelector("select");
    choice.add(new Option("order of the page", ""));
    for (const header of table.tHead.rows[0].cells) {
      if (header.querySelector("button")) choice.add(new Option(heading(header), header.cellIndex));
    }
    table.addEventListener("sorted", () => { choice.value = table.querySelector("th[aria-sort$=ending]").cellIndex; });
    choice.addEventListener("change", () => {
      if (choice.value) sort(table, table.tHead.rows[0].cells[choice.value], true);
      else restoreOrder(table);
      document.dispatchEvent(new Event("state"));
    });
  }
  function setUpTools(tools) {
    setUpOrder(tools, document.querySelector("table.sortable"));
    tools.addEventListener("input", (event) => {
      filter(tools);
      if (event.target.tagName !== "SELECT") document.dispatchEvent(new Event("state"));
    });
    tools.addEventListener("restored", () => filter(tools));
    tools.hidden = false;
    filter(tools);
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("table.sortable").forEach(setUpTable);
    document.querySelectorAll(".tools").forEach(setUpTools);
  });
  document.addEventListener("sort-table", (event) => {
    const table = document.getElementById(event.detail.table);
    const header = table && table.tHead && table.tHead.rows[0].cells[event.detail.column];
    if (header && header.hasAttribute("aria-sort")) sort(table, header, event.detail.isRising);
  });
})();
