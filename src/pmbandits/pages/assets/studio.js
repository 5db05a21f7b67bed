// The studio: asks the server whenever a choice changes, and shows the answer. What people typed is only ever set as text.
"use strict";
(() => {
  const { Chart, chip, element, number } = Charts;
  const $ = (id) => document.getElementById(id);
  const IDLE = 350; // milliseconds without a move, after which the careful verdict is asked for
  const state = { table: null, parts: [], average: null, kept: [], arms: [], statement: "", verdict: null };
  let catalogue = [];

  async function post(path, body, signal) {
    const answer = await fetch(path, { method: "POST", body: JSON.stringify(body), signal,
      headers: { "Content-Type": "application/json" } });
    const data = await answer.json();
    if (!answer.ok) throw Object.assign(new Error(data.error || "the studio did not answer"), { nearest: data.nearest });
    return data;
  }

  function wrong(id, error) {
    $(id).textContent = error ? error.message || String(error) : "";
    $(id).hidden = !error;
    if (error) $(id).scrollIntoView({ block: "nearest" });
  }

  // What is shown is of another table, or of this one read otherwise: it must not be taken for the answer.
  function stale(yes) {
    for (const id of ["result", "charts", "compare", "take", "limits"]) $(id).classList.toggle("stale", yes);
    $("answer").setAttribute("aria-busy", String(yes));
  }

  const table = StudioTable({ state, post, wrong, stale, taken });

  function taken(found, other) {
    clearTimeout(idle);
    state.now = null;
    if (other) { state.kept = []; $("compared").replaceChildren(); $("keep-none").hidden = true; }
    if (!found.read) { state.arms = []; dock(); remember(); return; }
    const before = other ? {} : limits;
    state.arms = found.read.arms;
    state.bend = found.read.bend;
    state.loss = Boolean(found.asked.loss);
    state.undrawn = found.read.undrawn;
    showLimits(state.arms, before);
    if (other && found.begin && !state.restoring) understand(found.begin);
    else { changed(); if (state.kept.length) compare(); }
    period();
  }

  // ---- the preference ---------------------------------------------------------------------------------
  const written = (value) => String(Number(Number(value).toPrecision(10)));

  function part(p) {
    const values = p.sliders.map((s) => written(p.values[s.name]));
    return values.length ? `${p.name}(${values.join(", ")})` : p.name;
  }

  function metric() {
    if (state.average !== null) {
      if (state.average >= 1 || !state.parts.length) return "mean";
      const rest = part(state.parts[0]);
      return state.average <= 0 ? rest : `${written(state.average)}*mean + ${written(1 - state.average)}*${rest}`;
    }
    return state.parts.map((p, k) => {
      const size = Math.abs(p.weight) === 1 ? "" : `${written(Math.abs(p.weight))}*`;
      return `${p.weight < 0 ? (k ? " - " : "-") : (k ? " + " : "")}${size}${part(p)}`;
    }).join("");
  }

  function slider({ label, min, max, step, value, unit = "", ends: words, id }, moved) {
    const output = element("output", { for: id }, `${number(value)}${unit}`);
    const input = element("input", { type: "range", id, min, max, step, value });
    input.setAttribute("aria-valuetext", `${number(value)}${unit}`);
    input.addEventListener("input", () => {
      output.textContent = `${number(Number(input.value))}${unit}`;
      input.setAttribute("aria-valuetext", output.textContent);
      moved(Number(input.value));
    });
    return element("div", { class: "slider" },
      element("div", { class: "head" }, element("label", { for: id }, label), output), input,
      words ? element("div", { class: "ends", "aria-hidden": "true" }, element("span", {}, words[0]), element("span", {}, words[1]))
        : null);
  }

  function showPreference(found) {
    state.parts = found.parts.map((p) => ({ ...p, values: { ...p.values } }));
    state.average = found.average;
    const rows = [];
    state.parts.forEach((p, k) => {
      if (state.average === null && state.parts.length > 1 && p.name !== "mean") {
        rows.push(slider({ id: `weight-${k}`, label: `weight of: ${p.meaning}`, min: Math.min(-1, p.weight),
          max: Math.max(1, p.weight), step: 0.05, value: p.weight }, (v) => { p.weight = v; moved(); }));
      }
      p.sliders.forEach((s) => {
        const turn = { plain: (v) => v, percent: (v) => v / 100, missing: (v) => 1 - v / 100 }[s.turn];
        rows.push(slider({ id: `part-${k}-${s.name}`, label: s.label, min: s.min, max: s.max, step: s.step, value: s.value,
          unit: s.turn === "plain" ? "" : " %" }, (v) => { p.values[s.name] = turn(v); moved(); }));
      });
    });
    if (state.average !== null && state.parts.length) {
      rows.push(slider({ id: "average", label: "how much it counts beside the plain average", min: 0, max: 100, step: 1,
        value: Math.round(100 * (1 - state.average)), unit: " %", ends: ["only the average", "only this"] },
      (v) => { state.average = 1 - v / 100; moved(); }));
    }
    $("sliders").replaceChildren(...rows);
    $("formula").value = metric();
    inWords(found.words);
    changed();
  }

  // The preference in words, with its numbers; a list that does not have it shows these words as well.
  function inWords(said) {
    $("does").textContent = `You value ${said}.`;
    const at = catalogue.findIndex((entry) => entry.text === metric());
    const own = $("statement").options[0];
    own.textContent = said;
    own.hidden = at >= 0;
    if ($("statement").value === "" || at < 0 || catalogue[Number($("statement").value)].text !== catalogue[at].text) {
      $("statement").value = at < 0 ? "" : String(at);
    }
  }

  // Somebody moved a slider: what was typed before is not true of it any more.
  function moved() {
    $("formula").value = metric();
    $("said").value = "";
    state.period = "";
    period();
    changed();
  }

  async function understand(said, more = {}) {
    try {
      const found = await post("wish", { said, loss: $("loss").checked, ...more });
      wrong("said-wrong", null);
      $("nearest").replaceChildren();
      state.period = found.period;
      showPreference(found);
      period();
    } catch (error) {
      wrong("said-wrong", error);
      const near = (error.nearest || []).map((text) => element("button", { type: "button",
        onclick: () => { $("said").value = text; understand(text); } }, text));
      $("nearest").replaceChildren(...(near.length ? [element("p", {}, "Did you mean one of these?"), element("div", { class: "near" }, near)] : []));
    }
  }

  // Who speaks of weeks does perhaps not mean single rows.
  function period() {
    const said = state.period, differs = Boolean(said) && state.arms.length > 0 && state.per !== said;
    $("said-period").hidden = !differs;
    if (!differs) return;
    const how = state.when ? element("button", { type: "button", onclick: () => table.per(said) }, `Take a ${said} as one reward`)
      : `To ask about ${said}s, make a table with one row for each arm and ${said} (the average of its rewards), or one with a column of dates.`;
    $("said-period").replaceChildren(`You speak of ${said}s, but one reward here is ${state.per ? `one ${state.per}` : "one row of the table"}. `, how);
  }

  $("say").addEventListener("submit", (event) => { event.preventDefault(); understand($("said").value); });
  $("formula-form").addEventListener("submit", (event) => { event.preventDefault(); understand($("formula").value, { formula: true }); });
  $("statement").addEventListener("change", () => {
    const entry = catalogue[Number($("statement").value)];
    if ($("statement").value === "" || !entry) return;
    wrong("said-wrong", null);
    $("nearest").replaceChildren();
    $("said").value = "";
    state.period = "";
    period();
    showPreference(entry);
  });
  $("named").addEventListener("change", () => { if ($("named").value) understand($("named").value, { formula: true }); });

  // ---- limits -----------------------------------------------------------------------------------------
  const limits = { arms: {}, text: "" };

  function showLimits(arms, before = {}) {
    const names = new Set(arms.map((arm) => arm.name));
    limits.arms = Object.fromEntries(Object.entries(before.arms || {}).filter(([name]) => names.has(name)));
    limits.text = before.text || "";
    $("limits-text").value = limits.text;
    $("limit-sliders").replaceChildren(...arms.slice(0, 24).map((arm, k) => {
      const pair = limits.arms[arm.name] || [0, 100];
      const note = (at) => (v) => { pair[at] = v; limits.arms[arm.name] = pair; changed(); };
      return element("fieldset", {}, element("legend", {}, chip(arm.colour), element("span", { class: "name" }, arm.name)),
        slider({ id: `least-${k}`, label: "at least", min: 0, max: 100, step: 1, value: pair[0], unit: " %" }, note(0)),
        slider({ id: `most-${k}`, label: "at most", min: 0, max: 100, step: 1, value: pair[1], unit: " %" }, note(1)));
    }));
  }
  $("limits-text").addEventListener("change", () => { limits.text = $("limits-text").value; changed(); });
  $("limits-clear").addEventListener("click", () => { showLimits(state.arms); changed(); });

  // ---- asking -----------------------------------------------------------------------------------------
  let asking = false, again = false, idle = 0;

  const question = () => ({ table: state.table, metric: metric(), limits, kept: [...new Set(state.kept.map((row) => row.metric))] });

  async function changed() {
    if (state.table === null || !state.arms.length || !(state.parts.length || state.average !== null)) return;
    again = true;
    clearTimeout(idle);
    if (asking) return;
    asking = true;
    while (again) {
      again = false;
      const since = performance.now(), asked = state.table;
      try {
        const found = await post("look", question());
        const answered = performance.now();
        if (asked !== state.table) continue; // of another table
        wrong("limits-wrong", null);
        show(found);
        remember();
        Object.assign($("answer").dataset, { server: found.ms.toFixed(1), answer: (answered - since).toFixed(1),
          drawing: (performance.now() - answered).toFixed(1), count: Number($("answer").dataset.count || 0) + 1 });
      } catch (error) {
        wrong(/limit|share|mixture keeps/.test(error.message) ? "limits-wrong" : "said-wrong", error);
        stale(true);
      }
    }
    asking = false;
    idle = setTimeout(carefully, IDLE);
  }

  // ---- the answer -------------------------------------------------------------------------------------
  const percent = (share) => (share === null ? "any" : share === 0 ? "–" : share >= 0.01 ? `${(100 * share).toFixed(0)} %` : `${(100 * share).toPrecision(2)} %`);
  const bar = (parts) => Charts.bar(parts, "share", percent);

  const REWARDS = { above: ["reward x", "share of rewards above x", 1], bent: ["reward x", "what being above x counts", 1] };
  const LOSSES = { above: ["loss x", "share of losses below x", -1], bent: ["loss x", "what being below x counts", -1] };
  let charts = null;
  function makeCharts() {
    if (charts) return;
    charts = {
      attention: new Chart($("chart-attention"), { title: "Which outcomes count, and how much", short: "outcome at", x: "outcomes: 0 % the worst, 100 % the best", y: "weight",
        note: "1 is what the plain average gives to every outcome. Below 0 an outcome counts against. Point at a chart to read its numbers.", steps: true, height: 200, span: [0, 100] }),
      way: new Chart($("chart-way"), { title: "Along the slider: what would be played", x: "how much it counts beside the average (%)", short: "at (%)",
        y: "share (%)", range: [0, 102], steps: false, height: 200 }),
      above: new Chart($("chart-above"), { title: "The results of the arms", x: "reward x", y: "share of rewards above x", steps: true,
        range: (u, low, high) => [0, Math.min(1.02 * high, 1.02) || 1] }),
      bent: new Chart($("chart-bent"), { title: "What your preference makes of them", x: "reward x", y: "what being above x counts", steps: true }),
      curve: new Chart($("chart-curve"), { title: "The preference as a curve h", x: "u: the chance of more than x", short: "u", y: "h(u)", height: 200 }),
    };
  }

  function show(found) {
    makeCharts();
    state.now = found;
    stale(false);
    inWords(found.words);
    const { tie } = found;
    $("sentence").textContent = tie ? tie.headline : found.sentence;
    $("dock-said").textContent = $("sentence").textContent;
    $("dock-bar").replaceChildren(...(tie ? [] : bar(found.arms)));
    $("big-bar").hidden = Boolean(tie);
    $("big-bar").replaceChildren(...(tie ? [] : bar(found.arms)));
    $("gives").textContent = tie ? tie.why : found.gives;
    $("price").textContent = tie ? "" : found.price;
    $("why").hidden = true;
    $("offers").replaceChildren(...(tie && tie.offers.length ? [element("p", {}, "What can tell them apart:"),
      element("div", { class: "near" }, tie.offers.map((one) => element("button", { type: "button",
        onclick: () => (one.per ? table.per(one.per) : understand(one.metric, { formula: true })) }, one.say)))] : []));
    badge(tie ? ["", "wait"] : ["checking whether that is more than chance …", "wait"]);
    $("verdict").replaceChildren();
    $("groups").replaceChildren();
    $("limits-cost").textContent = found.limits ? found.limits.sentence : "";
    armsTable(found.arms, null);
    $("command").textContent = found.again.command;
    $("python").textContent = found.again.python;
    const plain = { label: "the average", ink: "--soft", colour: "average", dash: [4, 4], width: 1 };
    charts.attention.set([{ label: "weight", colour: "#0072B2" }, plain], [found.attention.q, found.attention.w, found.attention.q.map(() => 1)], found.words + ".");
    charts.curve.note(found.bends);
    charts.curve.set([{ label: "h(u)", colour: "#0072B2" }, plain], [found.curve.u, found.curve.h, found.curve.u.slice()], found.bends);
    const lines = found.drawn.map((k) => { const arm = found.arms.find((a) => a.place === k);
      return { label: arm.name, colour: arm.colour, place: k, width: arm.share === 1 ? 3 : 1.6 }; });
    const mixed = found.above.length > lines.length; // one arm has its own line already
    if (mixed) lines.push({ label: "the mixture", ink: "--mixture", colour: "mixture", width: 2.6 });
    const said = `${found.drawn.length} arms${mixed ? " and the mixture" : ""}.`;
    charts.above.note(state.undrawn);
    charts.above.set(lines, [found.grid, ...found.above], said, { bend: state.bend, words: state.loss ? LOSSES.above : REWARDS.above });
    charts.bent.note(state.bend || state.loss ? "" : found.grid[0] < 0 ? "The score of an arm is the area below its line right of 0, less the area between its line and its height at the far left, left of 0."
      : "The score of an arm is the area below its line.");
    const average = found.text === "mean"; // then all outcomes count alike, and the score is the average
    $("bent-card").hidden = Boolean(tie) || average;
    $("attention-card").hidden = average;
    $("arms").classList.toggle("plain", average);
    charts.bent.set(lines, [found.grid, ...found.bent], said, { bend: state.bend, words: state.loss ? LOSSES.bent : REWARDS.bent });
    dock();
  }

  // The headline stays in sight while somebody moves sliders or looks at charts.
  const inSight = new Set();
  const dock = () => { $("dock").hidden = inSight.size > 0 || !state.now; };
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) inSight[entry.isIntersecting ? "add" : "delete"](entry.target);
    dock();
  });
  for (const id of ["head-answer", "sentence"]) watcher.observe($(id));

  function armsTable(arms, careful) {
    const spans = new Map((careful || []).filter((a) => a.interval).map((a) => [a.name, a.interval]));
    const spoken = new Map((careful || []).map((a) => [a.name, a.span]));
    const ends = arms.flatMap((a) => [a.worth, ...(spans.get(a.name) || [])]).concat(state.now.worth).filter((v) => v !== null);
    const high = Math.max(...ends), least = Math.min(...ends), low = least >= 0 && least < 0.7 * high ? 0 : least;
    const wide = (high - low) || 1;
    const at = (v) => `${(100 * (v - low) / wide).toFixed(2)}%`;
    $("worth-head").textContent = spans.size ? "score, with its 95 % interval" : "score, as a picture";
    $("arms").tBodies[0].replaceChildren(...arms.map((arm) => {
      const dot = element("b"), track = element("div", { class: "track" }), span = spans.get(arm.name);
      track.style.color = arm.colour;
      let said = `score ${arm.score}`;
      if (span) {
        const line = element("i");
        line.style.left = at(span[0]);
        line.style.width = `${(100 * (span[1] - span[0]) / wide).toFixed(2)}%`;
        track.append(line);
        said += `, 95 % interval ${spoken.get(arm.name)}`;
      }
      dot.style.left = at(arm.worth);
      track.append(dot);
      track.title = said;
      return element("tr", {}, element("th", { scope: "row", class: "name" }, chip(arm.colour), arm.name),
        element("td", { class: "number" }, percent(arm.share)),
        element("td", { class: "wide-only" }, element("div", { class: "bar", "aria-hidden": "true" }, bar([arm]))),
        element("td", { class: "number score" }, arm.score), element("td", { class: "number" }, arm.average),
        element("td", { class: "wide-only" }, track, element("span", { class: "hidden-visually" }, said)),
        element("td", { class: "number wide-only" }, arm.n.toLocaleString("en")));
    }), ...(state.now.more ? [element("tr", {}, element("td", { colspan: 7 }, `… and ${state.now.more} more arms`))] : []),
    element("tr", { class: "axis", "aria-hidden": "true" }, element("td", { colspan: 3 }), element("td", { class: "score" }), element("td"),
      element("td", { class: "wide-only" }, element("div", { class: "ends" }, element("span", {}, number(low, 3)), element("span", {}, high > low ? number(high, 3) : ""))), element("td")));
  }

  const KINDS = { choose: "yes", leads: "open", "cannot tell": "no" };
  const badge = ([said, kind]) => { $("badge").textContent = said; $("badge").className = `badge ${kind}`; $("badge").hidden = !said; };

  async function carefully() {
    const asked = question(), mine = state.now;
    if (!mine) return;
    way();
    if (mine.tie) return;
    if (mine.arms.filter((arm) => arm.share > 0).length > 1) {
      post("why", asked).then((found) => {
        if (mine !== state.now) return;
        $("why").textContent = found.why;
        $("why").hidden = !found.why;
      }).catch(() => {}); // it can be left out
    }
    try {
      const found = await post("verdict", asked);
      if (found.stale || mine !== state.now) return;
      const advice = found.advice[0], list = (texts) => element("ul", {}, texts.map((text) => element("li", {}, text)));
      const careful = new Map(advice.arms.map((arm) => [arm.name, arm]));
      const arms = mine.arms.map((arm) => { const { share, score, average } = careful.get(arm.name); return { ...arm, share, score, average }; });
      $("sentence").textContent = advice.recommendation;
      $("dock-said").textContent = advice.recommendation;
      for (const id of ["big-bar", "dock-bar"]) $(id).replaceChildren(...bar(arms));
      badge([advice.badge, KINDS[advice.kind]]);
      $("big-bar").hidden = advice.kind === "cannot tell";
      $("gives").textContent = advice.reason;
      $("price").textContent = advice.price;
      $("verdict").replaceChildren(
        element("p", {}, element("strong", {}, "Next: "), advice.outlook),
        ...(advice.offers.length ? [element("div", { class: "near" }, advice.offers.map((one) => element("button", { type: "button",
          onclick: () => understand(one.metric, { formula: true }) }, one.say)))] : []),
        ...(advice.costs.length ? [list(advice.costs)] : []),
        ...(advice.caveats.length ? [element("h3", {}, "Mind"), list(advice.caveats)] : []),
        element("details", {}, element("summary", {}, "How it was worked out"), list(advice.notes)));
      armsTable(arms, advice.arms);
      showGroups(found.groups);
    } catch (error) {
      if (mine !== state.now) return;
      badge(["no verdict", "no"]);
      $("verdict").replaceChildren(element("p", { class: "wrong" }, `No verdict: ${error.message}`));
    }
  }

  // One more answer for each group of rows.
  function showGroups(groups) {
    if (!groups) return;
    const [head, ...rows] = groups.rows, cells = (kind, row) => element("tr", {}, row.map((cell) => element(kind, {}, cell)));
    $("groups").replaceChildren(element("h3", {}, groups.title), element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Groups" },
      element("table", {}, element("thead", {}, cells("th", head)), element("tbody", {}, rows.map((row) => cells("td", row))))), ...groups.said.filter(Boolean).map((said) => element("p", {}, said)));
  }

  async function way() {
    const possible = state.average !== null && state.parts.length === 1 && state.table !== null, mine = state.now;
    if (!possible) { $("way-card").hidden = true; return; }
    try {
      const found = await post("way", { table: state.table, from: "mean", to: part(state.parts[0]), limits });
      if (mine !== state.now) return;
      $("way-card").hidden = !found.steps.length;
      if (!found.steps.length) return;
      charts.way.note(`From the plain average on the left to this preference alone on the right; the dashed line is where you are. ${found.changes}`);
      charts.way.set(found.arms.map((arm) => ({ label: arm.name, colour: arm.colour })), [found.steps, ...found.arms.map((a) => a.shares)],
        found.changes, { events: [{ x: 100 * (1 - state.average) }] });
    } catch { $("way-card").hidden = true; }
  }

  // A page that is loaded again goes on where it was, as long as the studio runs.
  const place = `studio ${location.pathname}`;
  function remember() {
    try {
      sessionStorage.setItem(place, JSON.stringify({ table: state.table, metric: metric(), kept: state.kept, limits }));
    } catch { /* not allowed here: then it begins anew */ }
  }
  function remembered() {
    try { return JSON.parse(sessionStorage.getItem(place)) || {}; } catch { return {}; }
  }

  // ---- comparing and taking away ----------------------------------------------------------------------
  const copied = () => JSON.parse(JSON.stringify({ metric: metric(), limits }));
  const sameAs = (one) => (other) => JSON.stringify(one) === JSON.stringify(other);
  $("keep").addEventListener("click", () => {
    const row = copied();
    if (!state.kept.some(sameAs(row)) && state.kept.length < 8) state.kept.push(row);
    compare();
  });
  $("keep-none").addEventListener("click", () => { state.kept = []; compare(); });

  async function compare() {
    $("keep-none").hidden = !state.kept.length;
    changed(); // the command and the lines name all that are kept
    if (!state.kept.length) { $("compared").replaceChildren(); return; }
    try {
      const found = await post("compare", { table: state.table, rows: state.kept });
      const heads = ["you value", "it chooses", "", "score in these data", "average", "best arm alone", "gain in these data", ...found.rows.map((r, k) => `loses if ${k + 1} is played`), ""];
      const rows = found.rows.map((row, k) => element("tr", {},
        element("th", { scope: "row" }, `${k + 1}. ${row.words}`, row.limits ? element("div", { class: "soft" }, `limits: ${row.limits}`) : null),
        element("td", {}, element("div", { class: "bar", "aria-hidden": "true" },
          bar(found.arms.map((arm, j) => ({ ...arm, share: row.shares[j] }))))), element("td", {}, row.plays),
        element("td", { class: "number" }, number(row.worth)), element("td", { class: "number" }, number(row.average)),
        element("td", {}, `${row.best} ${number(row.best_worth)}`), element("td", { class: "number" }, number(row.gain, 3)),
        row.lost.map((lost, j) => element("td", { class: "number" }, j === k ? "–" : lost || "–")),
        element("td", {}, element("button", { type: "button", "aria-label": `Remove ${row.words}`,
          onclick: () => { state.kept.splice(k, 1); compare(); } }, "×"))));
      const limited = state.kept.some((row) => !sameAs(row.limits)(limits));
      $("compared").replaceChildren(element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Preferences side by side" },
        element("table", {}, element("thead", {}, element("tr", {}, heads.map((h) => (h ? element("th", { scope: "col" }, h) : element("td", {}))))),
          element("tbody", {}, rows))),
      element("p", { class: "soft" }, "Quick numbers, each under the limits that it was kept with. “Loses” says how much less a preference gets if what another one plays is played. "
        + `The report has the careful verdict on all of them, and allows for their number${limited ? "; it puts all of them under the limits of now" : ""}.`));
    } catch (error) {
      $("compared").replaceChildren(element("p", { class: "wrong" }, error.message));
    }
  }

  $("report").addEventListener("click", async () => {
    $("report").disabled = true;
    $("report-said").textContent = "working it out …";
    try {
      const { kept } = question();
      const answer = await fetch("report", { method: "POST", body: JSON.stringify({ table: state.table, metrics: [...new Set([...kept, metric()])].slice(0, 8), limits }) });
      if (!answer.ok) throw new Error((await answer.json()).error);
      const link = element("a", { href: URL.createObjectURL(await answer.blob()), download: "report.html" });
      link.click();
      $("report-said").textContent = "report.html is in your downloads.";
    } catch (error) {
      $("report-said").textContent = error.message;
    }
    $("report").disabled = false;
  });

  // ---- the beginning ----------------------------------------------------------------------------------
  (async () => {
    const before = remembered();
    const found = await (await fetch(`start?table=${Number(before.table) || ""}`)).json();
    catalogue = found.catalogue;
    $("statement").append(element("option", { value: "" }, "(your own numbers)"),
      ...catalogue.map((entry, k) => element("option", { value: k }, entry.statement)));
    $("named").append(element("option", { value: "" }, "…"),
      ...found.named.map((entry) => element("option", { value: entry.text }, `${entry.text}: ${entry.meaning}`)));
    $("examples").replaceChildren(element("p", {}, "Or try an example:"), ...Object.entries(found.examples).map(([name, words]) =>
      element("p", {}, element("button", { type: "button", onclick: () => table.taking(post("example", { name })) }, name), " ",
        element("span", { class: "soft" }, words))));
    const again = Boolean(found.first) && before.table === found.first.table;
    state.restoring = again;
    showPreference(catalogue.find((entry) => entry.text === "mean"));
    if (again && before.metric) await understand(before.metric, { formula: true });
    if (found.first) table.show(found.first);
    if (again && found.first.read) {
      showLimits(state.arms, before.limits);
      state.kept = before.kept || [];
      compare();
    }
    state.restoring = false;
    document.body.dataset.ready = "yes";
  })();
})();
