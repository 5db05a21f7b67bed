// All experiments at a glance, again whenever one of them moves.
"use strict";
(() => {
  const { element, here } = Charts;
  const $ = (id) => document.getElementById(id);
  const STATUS = { running: "yes", paused: "open", archived: "wait" };

  const bar = (arms) => element("div", { class: "bar", "aria-hidden": "true" }, Charts.bar(arms, "wanted", (share) => `${(100 * share).toFixed(0)} %`));

  async function refresh() {
    try {
      const answer = await fetch(here("view"));
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.error);
      $("none").hidden = found.experiments.length > 0;
      $("experiments").tBodies[0].replaceChildren(...found.experiments.map((one) => element("tr", {},
        element("th", { scope: "row", class: "name" }, element("a", { href: `${encodeURIComponent(one.name)}/` }, one.name)),
        element("td", {}, element("span", { class: `badge ${STATUS[one.status] || "wait"}` }, one.status)),
        element("td", {}, one.metric), element("td", {}, one.policy),
        element("td", { class: "number" }, one.t === null ? "–" : one.t.toLocaleString("en")),
        element("td", {}, bar(one.arms), element("span", { class: "soft" }, one.wants)), element("td", { class: "long" }, one.warning ? element("p", { class: "warning" }, one.warning) : null, one.warning && one.sure ? `Not valid now, because an arm changed: ${one.sure}` : one.sure || "–"))));
      const heads = [...$("experiments").tHead.rows[0].cells].map((cell) => cell.textContent);
      for (const row of $("experiments").tBodies[0].rows) [...row.cells].forEach((cell, k) => { if (k) cell.dataset.label = heads[k]; });
      $("wrong").hidden = true;
      document.body.dataset.ready = "yes";
    } catch (error) {
      $("wrong").textContent = error.message;
      $("wrong").hidden = false;
    }
  }
  const source = new EventSource(here("stream"));
  source.addEventListener("moved", refresh);
  addEventListener("pagehide", () => source.close());
  refresh();
})();
