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
  }

  // ---- the table --------------------------------------------------------------------------------------
  function options(select, names, none, chosen) {
    select.replaceChildren(...(none === null ? [] : [element("option", { value: "" }, none)]),
      ...names.map((name) => element("option", { value: name, selected: name === chosen }, name)));
  }

  function showTable(found) {
    const other = state.table !== found.table;
    state.table = found.table;
    state.file = found.name;
    wrong("table-wrong", null);
    wrong("read-wrong", null);
    $("columns").hidden = false;
    if (other) {
      options($("arm"), found.columns, null, found.guess.arm);
      options($("reward"), found.columns, null, found.guess.reward);
      options($("unit"), found.columns, "nothing says so", null);
      options($("time"), found.columns, "nothing says so", null);
      $("wide").checked = found.guess.wide;
      $("wide-list").replaceChildren(...found.columns.map((name) => element("label", {}, element("input", { type: "checkbox", value: name,
        checked: found.guess.arms.includes(name) }), ` ${name}`)));
      $("decimal").value = found.guess.decimal;
      $("loss").checked = false;
      $("range").value = "unknown";
      $("range-ends").hidden = true;
      $("preview").replaceChildren(element("table", {},
        element("thead", {}, element("tr", {}, found.columns.map((name) => element("th", { scope: "col" }, name)))),
        element("tbody", {}, found.rows.slice(0, 5).map((row) => element("tr", {}, row.map((cell) => element("td", {}, cell)))))));
      state.kept = [];
      $("compared").replaceChildren();
    }
    $("long").hidden = $("wide").checked;
    $("wide-columns").hidden = !$("wide").checked;
    const { read } = found;
    $("why-asked").textContent = read ? "" : found.why;
    $("why-asked").hidden = read || !found.why;
    $("table-own").hidden = !found.own;
    $("table-file").href = `table?table=${found.table}`;
    $("file").textContent = read ? `${found.name}: ${read.used.toLocaleString("en")} rewards of ${read.count} arms`
      : `${found.name}: say which columns hold the arms and the rewards`;
    $("columns-said").textContent = read
      ? ($("wide").checked ? "Each column is an arm. Change how it is read"
        : `Arm: “${$("arm").value}”, reward: “${$("reward").value}”. Change how it is read`)
      : "Say which columns hold the arms and the rewards";
    $("columns-details").open = !read;
    $("source").open = false;
    $("source-said").textContent = "Take another table";
    stale(!read);
    $("account").textContent = read ? `${read.account || "Every row could be used."} ${read.often}` : "";
    if (!read) return;
    state.cut = read.cut;
    state.arms = read.arms;
    state.bend = read.bend;
    showLimits(read.arms);
    for (const id of ["charts", "compare", "take", "limits"]) $(id).hidden = false;
    $("waiting").hidden = true;
    $("result").hidden = false;
    changed();
  }

  // What is shown is of another table, or of this one read otherwise: it must not be taken for the answer.
  function stale(yes) {
    for (const id of ["result", "charts", "compare", "take", "limits"]) $(id).classList.toggle("stale", yes);
    if (yes && !$("result").hidden) $("verdict").replaceChildren(element("p", { class: "wrong" }, "What is shown below is not about this table."));
    if (yes) $("dock").hidden = true;
  }

  async function taking(promise, place = "table-wrong") {
    const before = $("file").textContent;
    try {
      $("file").textContent = "Reading …";
      stale(true);
      showTable(await promise);
      remember();
    } catch (error) {
      $("file").textContent = before;
      wrong(place, error);
      if (place === "table-wrong") stale(false); // the table before is still there
    }
  }

  async function drop(file) {
    const answer = await fetch(`drop?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file });
    const data = await answer.json();
    if (!answer.ok) throw new Error(data.error);
    return data;
  }

  $("pick").addEventListener("change", () => { if ($("pick").files[0]) taking(drop($("pick").files[0])); });
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      $("drop").classList.toggle("over", kind === "dragover");
      if (kind === "drop" && event.dataTransfer.files[0]) taking(drop(event.dataTransfer.files[0]));
    });
  }
  $("wide").addEventListener("change", () => { $("long").hidden = $("wide").checked; $("wide-columns").hidden = !$("wide").checked; });
  $("range").addEventListener("change", () => { $("range-ends").hidden = $("range").value !== "between"; });
  $("columns").addEventListener("submit", (event) => {
    event.preventDefault();
    const columns = [...$("wide-list").querySelectorAll("input:checked")].map((box) => box.value);
    if ($("wide").checked && !columns.length) { wrong("read-wrong", new Error("Tick at least one column that is an arm.")); return; }
    const asked = { table: state.table, wide: $("wide").checked && columns, loss: $("loss").checked,
      range: { kind: $("range").value, lo: ends("range-lo"), hi: ends("range-hi") } };
    for (const id of ["arm", "reward", "unit", "time", "decimal", "thousands", "currency"]) asked[id] = $(id).value;
    taking(post("read", asked), "read-wrong");
  });
  const ends = (id) => ($(id).value.trim() === "" ? "" : Number($(id).value.replace(",", ".")));

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
    $("does").textContent = [found.note, found.does && `${found.does[0].toUpperCase()}${found.does.slice(1)}.`].filter(Boolean).join(" ");
    state.touched = false;
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
    changed();
  }

  // Somebody moved a slider: words that were said or chosen before may not be true of it any more.
  function moved() {
    const now = metric();
    $("formula").value = now;
    state.touched = true;
    $("said").value = "";
    const at = catalogue.findIndex((entry) => entry.text === now);
    $("statement").value = at < 0 ? "" : String(at);
    changed();
  }

  async function understand(said, id) {
    try {
      const found = await post("wish", { said });
      wrong(id, null);
      $("nearest").replaceChildren();
      const at = catalogue.findIndex((entry) => entry.statement && entry.statement === found.statement);
      $("statement").value = at < 0 ? "" : String(at);
      showPreference(found);
    } catch (error) {
      wrong(id, error);
      $("nearest").replaceChildren(element("div", { class: "near" }, (error.nearest || []).map((text) => element("button", { type: "button",
        onclick: () => { $("said").value = text; understand(text, id); } }, text))));
    }
  }

  $("say").addEventListener("submit", (event) => { event.preventDefault(); understand($("said").value, "said-wrong"); });
  $("formula-form").addEventListener("submit", (event) => { event.preventDefault(); understand($("formula").value, "said-wrong"); });
  $("statement").addEventListener("change", () => {
    const entry = catalogue[Number($("statement").value)];
    if ($("statement").value !== "" && entry) { wrong("said-wrong", null); $("nearest").replaceChildren(); $("said").value = ""; showPreference(entry); }
  });
  $("named").addEventListener("change", () => { if ($("named").value) understand($("named").value, "said-wrong"); });

  // ---- limits -----------------------------------------------------------------------------------------
  const limits = { arms: {}, text: "" };

  function showLimits(arms, before = { arms: {}, text: "" }) {
    limits.arms = before.arms;
    limits.text = before.text;
    $("limits-text").value = before.text;
    $("limit-sliders").replaceChildren(...arms.slice(0, 24).map((arm, k) => {
      const pair = before.arms[arm.name] || [0, 100];
      const note = (at) => (v) => { pair[at] = v; limits.arms[arm.name] = pair; changed(); };
      return element("fieldset", {}, element("legend", {}, chip(arm.colour), element("span", { class: "name" }, arm.name)),
        slider({ id: `least-${k}`, label: "at least", min: 0, max: 100, step: 1, value: pair[0], unit: " %" }, note(0)),
        slider({ id: `most-${k}`, label: "at most", min: 0, max: 100, step: 1, value: pair[1], unit: " %" }, note(1)));
    }));
  }
  $("limits-text").addEventListener("change", () => { limits.text = $("limits-text").value; changed(); });
  $("limits-clear").addEventListener("click", () => { showLimits(state.arms); changed(); });

  // ---- asking -----------------------------------------------------------------------------------------
  let asking = false, again = false, idle = 0, since = 0;

  const question = () => ({ table: state.table, metric: metric(), limits, kept: state.kept });

  async function changed() {
    if (state.table === null || !state.arms.length || !(state.parts.length || state.average !== null)) return;
    again = true;
    clearTimeout(idle);
    if (asking) return;
    asking = true;
    while (again) {
      again = false;
      since = performance.now();
      try {
        const found = await post("look", question());
        const answered = performance.now();
        wrong("limits-wrong", null);
        show(found);
        remember();
        const drawn = performance.now();
        $("timing").textContent = `Quick numbers from all rewards, in ${Math.round(drawn - since)} ms.`;
        Object.assign($("timing").dataset, { server: found.ms.toFixed(1), answer: (answered - since).toFixed(1),
          drawing: (drawn - answered).toFixed(1), count: Number($("timing").dataset.count || 0) + 1 });
      } catch (error) {
        wrong(/limit|share|mixture keeps/.test(error.message) ? "limits-wrong" : "said-wrong", error);
        stale(true);
      }
    }
    asking = false;
    idle = setTimeout(carefully, IDLE);
  }

  // ---- the answer -------------------------------------------------------------------------------------
  const percent = (share) => (share === 0 ? "–" : share >= 0.01 ? `${(100 * share).toFixed(0)} %` : `${(100 * share).toPrecision(2)} %`);

  const bar = (parts) => Charts.bar(parts, "share", percent);

  let charts = null;
  function makeCharts() {
    if (charts) return;
    charts = {
      attention: new Chart($("chart-attention"), { title: "Which outcomes count, and how much", short: "outcome at", x: "outcomes: 0 % the worst, 100 % the best", y: "weight",
        note: "1 is what the plain average gives to every outcome. Below 0 an outcome counts against.", steps: true, height: 200 }),
      curve: new Chart($("chart-curve"), { title: "The preference as a curve h", x: "u: chance of a larger reward", short: "u", y: "h(u)",
        note: "An arm is worth h of the chance of more than x, added up over all x. Where h lies above the dashed line of the plain average, it bends towards spread and good outcomes; below it, towards the worst.", height: 200 }),
      above: new Chart($("chart-above"), { title: "The rewards of the arms", x: "reward x", y: "share of rewards above x", steps: true,
        range: (u, low, high) => [0, Math.min(1.02 * high, 1.02) || 1] }),
      bent: new Chart($("chart-bent"), { title: "What your preference makes of them", x: "reward x", y: "what being above x counts",
        steps: true }),
      way: new Chart($("chart-way"), { title: "Along the slider: what would be played", x: "how much it counts beside the average (%)", short: "at (%)",
        y: "share (%)", range: [0, 102], steps: true, note: "From the plain average on the left to this preference alone on the right, in 20 steps; the dashed line is where you are." }),
    };
  }

  function show(found) {
    makeCharts();
    state.now = found;
    state.verdict = null;
    stale(false);
    const tied = Boolean(found.tied);
    if (tied) for (const arm of found.arms) arm.share = 0;
    if (state.touched) $("does").textContent = `You value: ${found.aloud}.`;
    $("sentence").textContent = found.sentence;
    $("dock-said").textContent = found.sentence;
    $("dock-bar").replaceChildren(...bar(found.arms));
    $("instead").replaceChildren(element("div", { class: "near" }, found.instead.map((one) => element("button", { type: "button",
      onclick: () => { $("said").value = one.said; understand(one.said, "said-wrong"); } }, one.said))));
    $("average-said").textContent = found.average;
    $("average-said").hidden = !found.average;
    $("dock").hidden = false;
    $("price").textContent = tied ? found.price : `${found.price} ${found.mixtures}`;
    $("big-bar").replaceChildren(...bar(found.arms));
    $("verdict").replaceChildren(...(tied ? [element("span", { class: "badge open" }, "no difference")]
      : [element("span", { class: "badge wait" }, "checking"), element("span", { class: "soft" }, " whether that is more than chance …")]));
    $("limits-cost").textContent = found.limits ? found.limits.sentence : "";
    armsTable(found.arms, null);
    $("command").textContent = found.again.command;
    $("python").textContent = found.again.python;
    charts.attention.set([{ label: "weight", colour: "#0072B2" }, { label: "the average", ink: "--soft", colour: "average", dash: [4, 4], width: 1 }],
      [found.attention.q, found.attention.w, found.attention.q.map(() => 1)], found.words + ".");
    charts.curve.set([{ label: "h(u)", colour: "#0072B2" }, { label: "the average", ink: "--soft", colour: "average", dash: [4, 4], width: 1 }],
      [found.curve.u, found.curve.h, found.curve.u.slice()], found.words + ".");
    const lines = [...found.drawn.map((k) => { const arm = found.arms.find((a) => a.place === k); return { label: arm.name,
      colour: arm.colour, place: k, width: arm.share === 1 ? 3 : 1.6 }; })];
    const mixed = !tied && found.arms.filter((arm) => arm.share > 0).length > 1; // one arm has its own line already
    if (mixed) lines.push({ label: "the mixture", ink: "--mixture", colour: "mixture", width: 2.6 });
    const drawn = (rows) => [found.grid, ...(mixed ? rows : rows.slice(0, -1))];
    const said = `${found.drawn.length} arms${mixed ? " and the mixture" : ""}.`;
    charts.above.note(state.cut || "");
    charts.above.set(lines, drawn(found.above), said, { bend: state.bend });
    charts.bent.note(`What an arm is worth is the area below its line${found.grid[0] < 0
      ? "; left of 0, what is missing there up to the height of the far left counts against it" : ""}.`);
    charts.bent.set(lines, drawn(found.bent), said, { bend: state.bend });
  }

  function armsTable(arms, careful) {
    const spans = new Map((careful || []).map((a) => [a.name, a.interval]));
    const ends = arms.flatMap((a) => [a.worth, ...(spans.get(a.name) || [])]).concat(state.now.worth).filter((v) => v !== null);
    const low = Math.min(...ends), wide = (Math.max(...ends) - low) || 1;
    const at = (v) => `${(100 * (v - low) / wide).toFixed(2)}%`;
    $("arms").tBodies[0].replaceChildren(...arms.map((arm) => {
      const dot = element("b"), track = element("div", { class: "track" }), span = spans.get(arm.name);
      track.style.color = arm.colour;
      let said = `worth ${number(arm.worth)}`;
      if (span && span[0] !== null) {
        const line = element("i");
        line.style.left = at(span[0]);
        line.style.width = `${(100 * (span[1] - span[0]) / wide).toFixed(2)}%`;
        track.append(line);
        said += `, probably between ${number(span[0])} and ${number(span[1])}`;
      }
      dot.style.left = at(arm.worth);
      track.append(dot);
      track.title = said;
      const shares = element("div", { class: "bar", "aria-hidden": "true" }, bar([arm]));
      return element("tr", {}, element("th", { scope: "row", class: "name" }, chip(arm.colour), arm.name),
        element("td", { class: "number" }, percent(arm.share)), element("td", {}, shares),
        element("td", { class: "number" }, number(arm.worth)),
        element("td", { class: "wide-only" }, track, element("span", { class: "hidden-visually" }, said)),
        element("td", { class: "number" }, number(arm.mean)),
        element("td", { class: "number wide-only" }, arm.n.toLocaleString("en")));
    }), ...(state.now.more ? [element("tr", {}, element("td", { colspan: 7 }, `… and ${state.now.more} more arms`))] : []));
  }

  const BADGES = { surely: ["sure", "yes"], looks: ["likely, not sure", "open"], unclear: ["not decided", "no"] };

  async function carefully() {
    const asked = question(), mine = state.now;
    way();
    if (!mine || mine.tied) return;
    try {
      const found = await post("verdict", asked);
      if (found.stale || mine !== state.now) return;
      const advice = found.advice[0];
      state.verdict = advice;
      const [said, kind] = BADGES[advice.sure];
      const { people } = advice, lines = people.notes.map((note) => element("li", {}, note));
      const [low, high] = advice.interval || [null, null];
      const apart = Math.abs(advice.value - mine.worth) > 0.02 * Math.abs(mine.worth);
      const more = [people.outlook];
      if (apart && advice.value !== null && low !== null) more.push(`In the data that chose it, it looks like ${number(mine.worth)}; the careful number `
        + `is ${number(advice.value)}, measured on rewards that had no part in the choice. Tell others the careful one.`);
      if (low < 0 && Math.min(...mine.grid) >= 0) more.push("No reward here is below 0. If none can be, say so under “Change how it is read”: then the numbers stay above 0, too.");
      $("verdict").replaceChildren(
        ...people.warnings.map((text) => element("p", { class: "warning" }, text)),
        element("p", {}, element("span", { class: `badge ${kind}` }, said), ` ${people.reason}`),
        element("p", {}, `With care: ${people.recommendation[0].toLowerCase()}${people.recommendation.slice(1)}`),
        ...more.filter(Boolean).map((text) => element("p", {}, text)),
        ...(advice.costs.length ? [element("ul", {}, advice.costs.map((text) => element("li", {}, `In the data, ${text}.`)))] : []),
        element("details", {}, element("summary", {}, "What was checked, and notes"), element("ul", {}, lines)));
      armsTable(mine.arms, advice.arms);
    } catch (error) {
      if (mine === state.now) $("verdict").replaceChildren(element("p", { class: "wrong" }, `No verdict: ${error.message}`));
    }
  }

  async function way() {
    const possible = state.average !== null && state.parts.length === 1 && state.table !== null;
    $("way-card").hidden = !possible;
    if (!possible) return;
    const mine = state.now;
    try {
      const found = await post("way", { table: state.table, from: "mean", to: part(state.parts[0]), limits });
      if (mine !== state.now) return;
      charts.way.set(found.arms.map((arm) => ({ label: arm.name, colour: arm.colour })), [found.steps, ...found.arms.map((a) => a.shares)],
        "From the plain average on the left to this preference alone on the right.", { events: [{ x: 100 * (1 - state.average) }] });
    } catch { $("way-card").hidden = true; }
  }

  const limited = () => Boolean(limits.text) || Object.values(limits.arms).some(([low, high]) => low > 0 || high < 100);

  // A page that is loaded again begins where it was, as long as the studio runs.
  function remember() {
    try {
      sessionStorage.setItem("studio", JSON.stringify({ table: state.table, file: state.file, metric: metric(), kept: state.kept, limits }));
    } catch { /* not allowed here: then it begins anew */ }
  }
  function remembered() {
    try { return JSON.parse(sessionStorage.getItem("studio")) || {}; } catch { return {}; }
  }

  // ---- comparing and taking away ----------------------------------------------------------------------
  $("keep").addEventListener("click", () => {
    const text = metric();
    if (!state.kept.includes(text)) state.kept.push(text);
    compare();
  });
  $("keep-none").addEventListener("click", () => { state.kept = []; compare(); });

  async function compare() {
    $("keep-none").hidden = !state.kept.length;
    changed(); // the command and the lines name all that are kept
    if (!state.kept.length) { $("compared").replaceChildren(); return; }
    try {
      const found = await post("compare", { table: state.table, metrics: state.kept, limits });
      const heads = ["you value", "it plays", "", "worth", "best arm alone", "gain", ...found.rows.map((r, k) => `loses if ${k + 1} is played`), ""];
      const rows = found.rows.map((row, k) => element("tr", {},
        element("th", { scope: "row" }, `${k + 1}. ${row.text}`, element("div", { class: "soft" }, row.words)),
        element("td", {}, element("div", { class: "bar", "aria-hidden": "true" },
          bar(found.arms.map((arm, j) => ({ ...arm, share: row.shares[j] }))))), element("td", {}, row.plays),
        element("td", { class: "number" }, number(row.worth)), element("td", {}, `${row.best} ${number(row.best_worth)}`),
        element("td", { class: "number" }, number(row.gain, 3)),
        row.lost.map((lost, j) => element("td", { class: "number" }, j === k ? "–" : lost || "–")),
        element("td", {}, element("button", { type: "button", "aria-label": `Remove ${row.text}`,
          onclick: () => { state.kept.splice(k, 1); compare(); } }, "×"))));
      $("compared").replaceChildren(element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Preferences side by side" },
        element("table", {}, element("thead", {}, element("tr", {}, heads.map((h) => (h ? element("th", { scope: "col" }, h) : element("td", {}))))),
          element("tbody", {}, rows))),
      element("p", { class: "soft" }, `Quick numbers, all ${limited() ? "under the limits that are set now" : "without limits"}. “Loses” says how much less a preference would get if what another one plays were played. The report has the careful verdict on all of them, and allows for their number.`));
    } catch (error) {
      $("compared").replaceChildren(element("p", { class: "wrong" }, error.message));
    }
  }

  $("report").addEventListener("click", async () => {
    $("report").disabled = true;
    $("report-said").textContent = "working it out …";
    try {
      const texts = state.kept.length ? [...new Set([...state.kept, metric()])].slice(0, 8) : [metric()];
      const answer = await fetch("report", { method: "POST", body: JSON.stringify({ table: state.table, metrics: texts, limits }) });
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
      element("p", {}, element("button", { type: "button", onclick: () => taking(post("example", { name })) }, name), " ",
        element("span", { class: "soft" }, words))));
    const begin = catalogue.findIndex((entry) => /just the average/.test(entry.statement));
    $("statement").value = String(begin);
    showPreference(catalogue[begin]);
    if (found.first) showTable(found.first);
    if (found.first && before.table === found.first.table && before.file === found.first.name) {
      state.kept = before.kept || [];
      if (before.limits && found.first.read) showLimits(state.arms, before.limits);
      if (before.metric) await understand(before.metric, "said-wrong");
      if (state.kept.length) compare();
    }
    document.body.dataset.ready = "yes";
  })();
})();
