"use strict";
// The address keeps what a reader chose: #q=gsno&hide=floor&show=detail&sort=ranking.3.up
(function () {
  function boxes(tools, entry, isChecked) {
    const found = tools.querySelectorAll("input[data-" + entry + "]");
    return Array.from(found).filter((box) => box.checked === isChecked).map((box) => box.dataset[entry]);
  }
  function read(tools) {
    const state = new URLSearchParams();
    const words = tools.querySelector("input[type=search]").value;
    if (words) state.set("q", words);
    const hidden = boxes(tools, "kind", false), shown = boxes(tools, "group", true);
    if (hidden.length) state.set("hide", hidden.join(","));
    if (shown.length) state.set("show", shown.join(","));
    for (const header of document.querySelectorAll("table.sortable th[aria-sort$=ending]")) {
      const direction = header.getAttribute("aria-sort") === "ascending" ? "up" : "down";
      state.append("sort", [header.closest("table").id, header.cellIndex, direction].join("."));
    }
    return state;
  }
  function keep(tools) {
    const text = read(tools).toString();
    // a sandboxed frame may not change its address: the choice then lasts as long as the page
    try { history.replaceState(null, "", text ? "#" + text : location.pathname + location.search); } catch (error) { return; }
  }
  function restore(tools) {
    const state = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
    const hidden = (state.get("hide") || "").split(","), shown = (state.get("show") || "").split(",");
    tools.querySelector("input[type=search]").value = state.get("q") || "";
    for (const box of tools.querySelectorAll("input[data-kind]")) box.checked = !hidden.includes(box.dataset.kind);
    for (const box of tools.querySelectorAll("input[data-group]")) box.checked = shown.includes(box.dataset.group);
    tools.dispatchEvent(new Event("restored"));
    for (const text of state.getAll("sort")) {
      const [table, column, direction] = text.split(".");
      const detail = { table: table, column: Number(column), isRising: direction !== "down" };
      document.dispatchEvent(new CustomEvent("sort-table", { detail: detail }));
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    const tools = document.querySelector(".tools");
    if (!tools) return;
    restore(tools);
    document.addEventListener("state", () => keep(tools));
    addEventListener("hashchange", () => { if (location.hash.includes("=")) restore(tools); });
  });
})();
