// Buttons that copy the text of an element.
"use strict";
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy), before = button.textContent;
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch { // not allowed: mark it, so that it can be copied by hand
      getSelection().selectAllChildren(source);
      button.textContent = "Marked: copy it";
    }
    setTimeout(() => { button.textContent = before; }, 1500);
  });
}
