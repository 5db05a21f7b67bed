// Light or dark: as the system says, until somebody chooses. Runs before the page is painted, so that nothing flashes.
"use strict";
(() => {
  const root = document.documentElement;
  const stored = () => { try { return localStorage.getItem("pmbandits-theme"); } catch { return null; } };
  const chosen = stored();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    if (!button) return;
    const say = () => { button.textContent = isDark() ? "Light colours" : "Dark colours"; };
    say();
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("pmbandits-theme", root.dataset.theme); } catch { /* it is only for this page then */ }
      say();
      document.dispatchEvent(new Event("themechange"));
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      say();
      document.dispatchEvent(new Event("themechange"));
    });
  });
})();
