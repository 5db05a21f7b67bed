// What can be moved sideways can be reached with the keyboard: code, formulas and tables that are wider than the page.
function reachable() {
  for (const part of document.querySelectorAll("article pre, .formula, .table-wrapper, div.output.shown")) {
    if (part.scrollWidth > part.clientWidth + 1) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
}
window.addEventListener("load", reachable);
window.addEventListener("resize", reachable);
