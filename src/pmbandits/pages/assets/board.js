// The board: draws what the server sees, again whenever something moves. What people typed is only ever set as text.
"use strict";
(() => {
  const { Chart, chip, element, number, here } = Charts;
  const $ = (id) => document.getElementById(id);
  const kind = $("board").dataset.kind;
  const live = kind === "experiment";
  const mayChange = live && $("board").dataset.change === "yes";
  const state = { arms: [], stored: null, seq: 0, version: "", found: {}, drawn: 0, policy: "", trial: "", highlight: "" };
  const percent = (share) => (share === null || share === undefined ? "–" : share === 0 ? "0 %"
    : share >= 0.01 ? `${(100 * share).toFixed(0)} %` : `${(100 * share).toPrecision(2)} %`);
  const STATUS = { running: "yes", finished: "yes", paused: "open", archived: "wait" };

  const bar = (arms, share) => Charts.bar(arms, share, percent);

  const charts = {
    shares: new Chart($("chart-shares"), { title: "Shares played (lines) and wanted (dashes)", x: "rounds (logarithmic scale)", short: "round", y: "share (%)", log: true,
      range: [0, 102], note: "Lines from top to bottom are what happened; see the list below." }),
    regret: new Chart($("chart-regret"), live
      ? { title: "What the mixture wanted is worth, and what any other could be", x: "rounds (logarithmic scale)", short: "round", y: "worth", log: true }
      : { title: "Regret", x: "rounds (logarithmic scale)", short: "round", y: "regret per round", log: true, gaps: true, note: "The mean over the finished trials, with a band of one standard error." }),
    above: new Chart($("chart-above"), { title: "The rewards of the arms", x: "reward x", y: "share of rewards above x", steps: true,
      range: (u, low, high) => [0, Math.min(1.02 * (high || 1), 1.02)] }),
    bent: new Chart($("chart-bent"), { title: "What the preference makes of them", x: "reward x", y: "what being above x counts",
      note: "What an arm is worth is the area below its line.", steps: true }),
    curve: new Chart($("chart-curve"), { title: "The preference as a curve h", x: "u: chance of a larger reward", short: "u", y: "h(u)",
      height: 200 }),
  };

  // ---- what the server says ---------------------------------------------------------------------------
  async function get(path) {
    const answer = await fetch(here(path), { headers: { Accept: "application/json" } });
    const data = await answer.json();
    if (!answer.ok) throw new Error(data.error || "the server did not answer");
    return data;
  }

  let asking = false, again = false;
  async function refresh() {
    again = true;
    if (asking) return;
    asking = true;
    while (again) {
      again = false;
      try {
        const query = live ? `?after=${state.seq}&have=${state.version}` : `?policy=${encodeURIComponent(state.policy)}&trial=${encodeURIComponent(state.trial)}`;
        const found = await get(`view${query}`);
        const start = performance.now();
        show(found);
        state.version = found.version || "";
        state.drawn += 1;
        Object.assign(document.body.dataset, { ready: "yes", drawn: state.drawn, main: (performance.now() - start).toFixed(1) });
        $("wrong").hidden = true;
      } catch (error) {
        $("wrong").textContent = error.message;
        $("wrong").hidden = false;
      }
      await new Promise((go) => setTimeout(go, 400));
    }
    asking = false;
  }

  function listen() {
    const source = new EventSource(here("stream"));
    source.addEventListener("moved", (event) => {
      const moved = JSON.parse(event.data);
      $("live").textContent = live ? `${Number(moved.events).toLocaleString("en")} events`
        : `${moved.done.toLocaleString("en")} of ${moved.total.toLocaleString("en")} trials finished`;
      refresh();
    });
    source.addEventListener("error", () => { $("live").textContent = "The connection was lost; it is tried again."; });
    addEventListener("pagehide", () => source.close());
  }

  // ---- showing it -------------------------------------------------------------------------------------
  // Only what is new is sent: it takes the place of what was there, and what depends on it is drawn anew.
  function show(news) {
    const found = Object.assign(state.found, news);
    const moved = (...keys) => keys.some((key) => key in news);
    if (moved("known", "arms")) (found.known || []).forEach((known, k) => Object.assign(found.arms[k] || {}, known));
    if (live) for (const arm of found.arms) arm.rewards = arm.pulls - arm.pending + (arm.unasked || 0);
    if (moved("alone", "arms")) (found.alone || []).forEach((alone, k) => { if (found.arms[k]) found.arms[k].alone = alone; });
    state.arms = found.arms;
    $("title").textContent = found.title;
    $("status").textContent = found.status;
    $("status").className = `badge ${STATUS[found.status] || "wait"}`;
    const wanted = found.arms.filter((arm) => arm.wanted > 0).sort((a, b) => b.wanted - a.wanted);
    const list = (arms) => `${arms.slice(0, 6).map((arm) => `${percent(arm.wanted)} ${arm.arm || arm.name}`).join(" + ")}${arms.length > 6 ? ` + ${arms.length - 6} more` : ""}`;
    const people = found.segments || [];
    const listed = people.length ? "these shares in each segment:" : list(wanted);
    const rewards = !live || found.arms.some((arm) => arm.pulls || arm.rewards);
    $("sentence").textContent = !rewards ? "Nothing was played yet." : wanted.length ? `${live ? "The policy wants" : "Wants"} ${listed}` : "Nothing is finished yet.";
    $("big-bar").replaceChildren(...bar(found.arms, "wanted"));
    $("big-bar").hidden = people.length > 0;
    $("segments").hidden = !people.length;
    $("segments").replaceChildren(...people.slice(0, 60).map((one) => {
      const mine = wanted.filter((arm) => arm.segment === one.segment);
      return element("li", {}, element("strong", {}, one.segment), whole(` ${list(mine)} `),
        element("span", { class: "soft" }, whole(`${one.arrivals.toLocaleString("en")} came${one.share === null ? "" : `, ${percent(one.share)} of all`}`)),
        element("div", { class: "big bar", "aria-hidden": "true" }, bar(mine, "wanted")));
    }));
    for (const [id, text] of [["certainty", doubtful(found, found.sure)], ["forecast", doubtful(found, found.forecast)], ["explanation", found.next],
      ["ratio", found.ratio && found.ratio.sentence],
      ["checked", found.checked && `The rewards are being checked for changes of the arms: ${found.checked} so far.`]]) {
      $(id).textContent = whole(text || "");
      $(id).hidden = !text;
    }
    $("ratio").className = found.ratio && found.ratio.alarm ? "warning" : "soft";
    $("why").hidden = !found.next;
    if (moved("warnings")) warned(found);
    $("facts").replaceChildren(...found.facts.flatMap(([label, value]) => [element("dt", {}, label), element("dd", {}, value)]));
    if (found.choices) choices(found.choices);
    if (moved("arms", "known", "alone")) table(found);
    history(found);
    if (moved("curves")) curves(found);
    if (moved("metric")) charts.curve.set([{ label: "h(u)", colour: "#0072B2" }, { label: "the average", ink: "--soft", colour: "average", dash: [4, 4], width: 1 }],
      [found.metric.u, found.metric.h, found.metric.u.slice()], `${found.metric.words}.`);
    if (moved("marks")) $("marks").replaceChildren(...(found.marks.length ? found.marks.slice().reverse().slice(0, 40).map((mark) =>
      element("li", {}, mark.text)) : [element("li", { class: "soft" }, "Nothing but pulls and rewards so far.")]));
    if (moved("decisions")) {
      $("decisions-card").hidden = !found.decisions.length;
      const decisions = together(found.decisions), shared = sharedSentences(decisions);
      $("decisions-shared").textContent = whole(`For all of them: ${shared.join(" ")}`);
      $("decisions-shared").hidden = !shared.length;
      $("decisions").tBodies[0].replaceChildren(...decisions.map((d) => element("tr", {}, element("td", {}, d.when),
        element("td", {}, d.what), element("td", { class: "name" }, d.arm || "–"), element("td", { class: "long" }, whole(sentences(d.reason).filter((one) => !shared.includes(one)).join(" ") || "–")))));
      label($("decisions"), ["when", "what", "arm", "reason"]);
    }
    $("limits-box").hidden = !live;
    if (live) {
      $("limits").textContent = found.limits || "none";
      for (const id of ["limits-change", "pause-all"]) $(id).hidden = !mayChange;
      $("pause-all").textContent = found.status === "running" ? "Pause the experiment" : "Let it run again";
    }
  }

  // Decisions in a row that are alike stand in one row; the newest comes first.
  function together(decisions) {
    const out = [];
    for (const one of decisions) {
      const last = out[out.length - 1];
      if (last && last.arm === one.arm && last.reason === one.reason) last.from = one.seq;
      else out.push({ ...one, from: one.seq });
    }
    return out.map((one) => (one.from === one.seq ? one : { ...one, what: `asks ${one.from.toLocaleString("en")} to ${one.seq.toLocaleString("en")}` }));
  }

  // What is the same in the reasons of all decisions is said once.
  const sentences = (text) => (text || "").split(/(?<=\.) (?=[A-Z])/);
  const sharedSentences = (decisions) => (decisions.length < 2 ? []
    : sentences(decisions[0].reason).filter((one) => one && decisions.every((d) => sentences(d.reason).includes(one))));

  // A number and its sign stay in one line.
  const whole = (text) => text.replace(/(\d) %/g, "$1\u00a0%");

  function warned(found) {
    const rows = found.warnings.map((one) => element("p", { class: "warning" }, whole(one.text), " ",
      mayChange ? element("button", { type: "button", onclick: () => confirmArm("pause", found.arms.find((arm) => arm.name === one.arm)) }, `Pause ${(found.arms.find((arm) => arm.name === one.arm) || {}).arm || one.arm} …`) : null));
    if (rows.length) rows.push(element("p", { class: "soft" }, found.restarts
      ? "The policy forgets the rewards of such an arm from before, and goes on."
      : "The policy does not forget: it takes all rewards of an arm as equal, and what is said here is true only if arms do not change. If the arm broke, pause it. "
        + "If arms often change, begin an experiment with the option detect=\"restart\" or with estimates that forget."));
    $("warnings").replaceChildren(...rows);
  }

  function options(select, values, chosen) {
    const texts = values.map(String);
    if (select.dataset.known !== texts.join("\n")) {
      select.dataset.known = texts.join("\n");
      select.replaceChildren(...texts.map((text) => element("option", { value: text }, text)));
    }
    if (document.activeElement !== select) select.value = String(chosen);
  }

  function choices(found) {
    $("choices").hidden = false;
    options($("policy"), found.policies, found.policy);
    options($("trial"), found.trials, found.trial);
  }
  for (const id of ["policy", "trial"]) $(id).addEventListener("change", () => { state[id] = $(id).value; refresh(); });

  function table(found) {
    const worth = found.arms.some((arm) => arm.alone);
    const known = found.arms.some((arm) => arm.worth !== undefined && arm.worth !== null);
    const best = found.arms.some((arm) => arm.best !== undefined && arm.best !== null);
    const held = document.activeElement && $("arms").contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    const heads = ["arm", "played", "wanted", ...(best ? ["best"] : []), "", "pulls", ...(live ? ["rewards", "average"] : []),
      ...(worth || known ? ["worth alone"] : []), ...(mayChange ? [""] : [])];
    $("arms").tHead.replaceChildren(element("tr", {}, heads.map((h, k) => (h ? element("th", { scope: "col", class: k ? "number" : null }, h)
      : element("td", {})))));
    const rank = (arm) => (found.segments || []).findIndex((one) => one.segment === arm.segment);
    const first = (arm) => !arm.segment || found.arms.find((one) => one.arm === arm.arm) === arm;  // an arm pauses in all segments
    const order = found.arms.slice().sort((a, b) => rank(a) - rank(b) || (b.wanted || 0) - (a.wanted || 0) || (b.played || 0) - (a.played || 0)).slice(0, 60);
    $("arms").tBodies[0].replaceChildren(...order.map((arm) => {
      const alone = arm.alone ? `${number(arm.alone.utility)} (${number(arm.alone.lower)} … ${number(arm.alone.upper)})` : number(arm.worth);
      const off = arm.plays === false;
      return element("tr", {}, element("th", { scope: "row", class: "name" }, chip(arm.colour), arm.name,
        off ? element("span", { class: "soft" }, arm.retired ? " retired" : " pauses") : null),
      element("td", { class: "number" }, percent(arm.played)), element("td", { class: "number" }, percent(arm.wanted)),
      best ? element("td", { class: "number" }, percent(arm.best)) : null,
      element("td", {}, element("div", { class: "bar", "aria-hidden": "true" }, bar([arm], "wanted"))),
      element("td", { class: "number" }, (arm.pulls || 0).toLocaleString("en")),
      ...(live ? [element("td", { class: "number" }, (arm.rewards || 0).toLocaleString("en")), element("td", { class: "number" }, number(arm.mean))] : []),
      worth || known ? element("td", { class: "number" }, alone) : null,
      mayChange && !arm.retired && first(arm) ? element("td", {}, element("button", { type: "button", "aria-label": `${off ? "Resume" : "Pause"} ${arm.arm || arm.name}`,
        onclick: () => confirmArm(off ? "resume" : "pause", arm) }, off ? "Resume" : "Pause")) : mayChange ? element("td", {}) : null);
    }));
    label($("arms"), heads);
    focus(held);
  }

  // On a phone a row is a card: each number stands beside its name.
  function label(table, heads) {
    for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, k) => { if (heads[k]) cell.dataset.label = heads[k]; });
  }
  // What is drawn anew keeps the focus of who uses the keyboard; a button to pause may have become one to resume.
  function focus(name) {
    if (!name) return;
    const arm = name.replace(/^(Pause|Resume) /, "");
    const again = [...$("arms").querySelectorAll("button")].find((button) => button.getAttribute("aria-label").replace(/^(Pause|Resume) /, "") === arm);
    if (again) again.focus();
  }

  // The points of the past stay; only new ones come, and the present one, which is not stored yet.
  function joined(found) {
    const now = found.history;
    if (!live) return now;
    const stored = state.stored = state.stored || { x: [], rows: [] };
    now.x.forEach((x, k) => { stored.x.push(x); stored.rows.push(now.rows[k]); });
    state.seq = now.seq || state.seq;
    const x = stored.x.slice(), rows = stored.rows.slice();
    if (now.now && (!x.length || now.now.x > x[x.length - 1])) { x.push(now.now.x); rows.push(now.now.row); }
    return { x, rows };
  }

  function history(found) {
    const all = joined(found);
    const shown = live ? found.arms.slice().sort((a, b) => Math.max(b.wanted, b.played || 0) - Math.max(a.wanted, a.played || 0))
      .slice(0, 8).map((arm) => arm.place).sort((a, b) => a - b) : all.played.map((line) => line.place);
    $("chart-shares").parentElement.hidden = !all.x.length;
    const lines = [], data = [all.x];
    for (const place of shown) {
      const arm = found.arms[place];
      lines.push({ label: arm.name, colour: arm.colour, width: 2, dash: dash(found, arm) });
      if (!arm.segment) lines.push({ label: `${arm.name} wanted`, colour: arm.colour, width: 1.4, dash: [3, 4], quiet: true });
      if (arm.segment) data.push(all.rows.map((row) => column(row.played, place)));
      else if (live) data.push(all.rows.map((row) => column(row.played, place)), all.rows.map((row) => column(row.wanted, place)));
      else data.push(all.played.find((line) => line.place === place).y, all.wanted.find((line) => line.place === place).y);
    }
    charts.shares.set(lines, data, `${found.arms.length > shown.length ? `The ${shown.length} arms with most.` : `${shown.length} arms.`}${found.segments ? " What was played, of all who came." : ""}`, { events: found.marks || [] });
    if (live) sureness(all, found);
    else regret(found.policies);
  }
  const column = (values, place) => (place < values.length ? values[place] : null);

  // What is said of certainty assumes that arms do not change.
  function doubtful(found, text) {
    if (text && found.ratio && found.ratio.alarm) return `Not valid now, because rewards do not come in as arms were drawn: ${text}`;
    return text && (found.warnings || []).length && !found.restarts ? `Not valid now, because an arm changed: ${text}` : text;
  }

  function sureness(all, found) {
    const has = all.rows.some((row) => row.utility !== null && row.utility !== undefined);
    $("regret-card").hidden = !has;
    if (!has) return;
    const get = (name) => all.rows.map((row) => (row[name] === undefined ? null : row[name]));
    charts.regret.set([
      { label: "at most", colour: "#0072B2", width: 1, dash: [2, 3], band: "rgb(0 114 178 / 12%)" },
      { label: "at least", colour: "#0072B2", width: 1, dash: [2, 3] },
      { label: "the mixture wanted", colour: "#0072B2", width: 2 },
      { label: "any other, at most", colour: "#D55E00", width: 1.4, dash: [8, 5] }],
    [all.x, get("upper"), get("lower"), get("utility"), get("rival")], found.sure || "", { events: found.marks || [] });
  }

  function regret(policies) {
    $("regret-card").hidden = !policies.length;
    if (!policies.length) return;
    const xs = [...new Set(policies.flatMap((p) => p.t))].sort((a, b) => a - b);
    const lines = [], data = [xs];
    policies.forEach((p, k) => {
      const at = new Map(p.t.map((t, j) => [t, j]));
      const line = (f) => xs.map((t) => (at.has(t) ? f(at.get(t)) : null));
      const colour = Charts.style(`--arm-${k % 18}`);
      lines.push({ label: `${p.label}, high`, colour, width: 0.01, band: `color-mix(in srgb, ${colour} 18%, transparent)`, dash: [1, 0] },
        { label: `${p.label}, low`, colour, width: 0.01, dash: [1, 0] }, { label: p.label, colour, place: k, width: 2 });
      // As in plot_regret: on a logarithmic scale only what is above 0 can be shown.
      const shown = (v) => (v > 1e-15 ? v : null);
      data.push(line((j) => shown(p.mean[j] + p.error[j])), line((j) => shown(Math.max(p.mean[j] - p.error[j], 0.1 * p.mean[j]))),
        line((j) => shown(p.mean[j])));
    });
    const upright = data.slice(1).some((values) => values.some((v) => v !== null));
    charts.regret.set(lines, data, policies.map((p) => `${p.label}: ${number(p.mean[p.mean.length - 1])} after ${p.trials} trials`).join("; "), { upright });
  }

  // An arm has the same colour in all segments; the lines of these differ.
  const dash = (found, arm) => (arm.segment ? [[], [9, 4], [4, 3, 1, 3], [1, 3]][found.segments.findIndex((one) => one.segment === arm.segment) % 4] : undefined);

  function curves(found) {
    const { x, bend, arms } = found.curves;
    const names = arms.map((curve) => found.arms[curve.place].name);
    charts.above.options.steps = charts.bent.options.steps = !found.curves.smooth;
    const banded = arms.some((curve) => curve.low);
    $("highlight").parentElement.hidden = !banded;
    if (!state.highlight && names.length) {
      state.highlight = arms.map((curve) => found.arms[curve.place]).reduce((a, b) => (b.wanted > a.wanted ? b : a)).name;
    }
    options($("highlight"), ["no arm", ...names], state.highlight || "no arm");
    for (const [chart, value, low, high] of [[charts.above, "above", "low", "high"], [charts.bent, "bent", "bent_low", "bent_high"]]) {
      const lines = [], data = [x];
      for (const curve of arms) {
        const arm = found.arms[curve.place];
        if (curve[low] && arm.name === state.highlight) {
          lines.push({ label: `${arm.name}, at most`, colour: arm.colour, width: 0.6, dash: [1, 2], band: `color-mix(in srgb, ${arm.colour} 22%, transparent)` },
            { label: `${arm.name}, at least`, colour: arm.colour, width: 0.6, dash: [1, 2] });
          data.push(curve[high], curve[low]);
        }
        lines.push({ label: arm.name, colour: arm.colour, place: arm.segment ? undefined : curve.place, dash: dash(found, arm), width: 1.8 });
        data.push(curve[value]);
      }
      if (x.length) chart.set(lines, data, `${arms.length} arms.`, { bend });
    }
  }
  $("highlight").addEventListener("change", () => { state.highlight = $("highlight").value; if (state.found.curves) curves(state.found); });

  // ---- changing it: a confirmation that says what will happen --------------------------------------------
  let act = null;
  const told = (lines) => $("confirm-body").replaceChildren(...lines.map((text) => element("p", {}, text)));

  let newest = 0;
  async function preview(query) {
    const mine = ++newest;
    $("confirm-wrong").hidden = true;
    try {
      const found = await get(`preview?${query}`);
      if (mine !== newest) return;
      told(found.sentences);
      $("confirm-yes").disabled = false;
    } catch (error) {
      if (mine !== newest) return;
      told([]);
      refuse(error);
      $("confirm-yes").disabled = true;
    }
  }
  const refuse = (error) => { $("confirm-wrong").textContent = error.message; $("confirm-wrong").hidden = false; };

  function open(title, { limits = false } = {}) {
    $("confirm-title").textContent = title;
    $("confirm-limits").hidden = !limits;
    $("confirm-key").hidden = $("board").dataset.keys !== "yes";
    $("confirm-wrong").hidden = true;
    told(["…"]);
    $("confirm-yes").disabled = true;
    $("confirm").showModal();
  }

  function confirmArm(verb, arm) {
    const name = arm.arm || arm.name;
    open(`${verb === "pause" ? "Pause" : "Resume"} the arm ${name}${arm.segment ? " in all segments" : ""}?`);
    act = () => ["POST", "arms", { do: verb, arm: name }];
    preview(`do=${verb}&arm=${encodeURIComponent(name)}`);
  }
  $("limits-change").addEventListener("click", () => {
    open("Change the limits?", { limits: true });
    $("new-limits").value = state.found.limits || "";
    $("new-limits").focus();
    act = () => ["PUT", "limits", { shares: $("new-limits").value.trim() || null }];
    preview(`do=limits&shares=${encodeURIComponent($("new-limits").value)}`);
  });
  let typing = 0;
  $("new-limits").addEventListener("input", () => {
    clearTimeout(typing);
    told(["…"]);
    $("confirm-yes").disabled = true;
    typing = setTimeout(() => preview(`do=limits&shares=${encodeURIComponent($("new-limits").value)}`), 300);
  });
  $("pause-all").addEventListener("click", () => {
    const next = state.found.status === "running" ? "paused" : "running";
    open(next === "paused" ? "Pause the experiment?" : "Let the experiment run again?");
    act = () => ["POST", "status", { status: next }];
    preview(`do=${next}`);
  });
  $("confirm-no").addEventListener("click", () => $("confirm").close());
  $("confirm-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const [method, path, body] = act();
    const headers = { "Content-Type": "application/json" };
    if ($("board").dataset.keys === "yes") headers.Authorization = `Bearer ${$("admin-key").value.trim()}`;
    try {
      const name = location.pathname.split("/").filter(Boolean)[1];
      const answer = await fetch(`${location.origin}/v1/experiments/${name}/${path}`, { method, headers, body: JSON.stringify(body), credentials: "omit" });
      const data = await answer.json();
      if (!answer.ok) throw new Error(data.error);
      $("admin-key").value = "";
      $("confirm").close();
      await refresh();
      if (body.arm) focus(`Pause ${body.arm}`);
    } catch (error) { refuse(error); }
  });

  if (live) $("all").hidden = false;
  refresh();
  listen();
})();
