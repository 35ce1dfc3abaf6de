"use strict";
// Light or dark, and buttons that copy a command. The page is complete without it.
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

  // Where the clipboard is closed to us, the command is selected, so that a key copies it.
  function select(code) {
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  }
  function setUpCopy(button) {
    const code = button.parentElement.querySelector("code");
    button.hidden = false;
    button.addEventListener("click", () => {
      const told = (word) => { button.textContent = word; setTimeout(() => { button.textContent = "Copy"; }, 1500); };
      select(code);
      if (!navigator.clipboard) return told("Selected");
      navigator.clipboard.writeText(code.textContent).then(() => told("Copied"), () => told("Selected"));
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    setUpTheme();
    document.querySelectorAll("button.copy").forEach(setUpCopy);
  });
})();
