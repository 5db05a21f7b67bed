// The table of the studio: how it is taken, and how it is read. What people typed is only ever set as text.
"use strict";
const StudioTable = ({ state, post, wrong, taken, stale }) => {
  const { element } = Charts;
  const $ = (id) => document.getElementById(id);
  const TEXTS = ["thousands", "currency", "where", "since", "sheet", "matters", "measured_in", "missing"];
  const CHOICES = ["arm", "reward", "unit", "time", "decimal", "weight", "propensity", "by", "segment", ...TEXTS];
  const TICKS = ["same_names", "distinct"];

  function options(select, names, none, chosen) {
    select.replaceChildren(...(none === null ? [] : [element("option", { value: "" }, none)]),
      ...names.map((name) => element("option", { value: name, selected: name === chosen }, name)));
  }

  const wideOrLong = () => { $("long").hidden = $("wide").checked; $("wide-columns").hidden = !$("wide").checked; };
  const rangeEnds = () => { $("range-ends").hidden = $("range").value !== "between"; };

  // The form as the table was read, or as it is likely to be meant.
  function fill(found) {
    const { guess, asked = {} } = found;
    options($("arm"), found.columns, null, asked.arm || guess.arm);
    options($("reward"), found.columns, null, asked.reward || guess.reward);
    options($("unit"), found.columns, "no such column", asked.unit);
    options($("time"), found.columns, "no such column", asked.time);
    $("wide").checked = asked.wide === undefined ? guess.wide : Boolean(asked.wide);
    const arms = Array.isArray(asked.wide) ? asked.wide : asked.wide ? found.columns : guess.arms;
    $("wide-list").replaceChildren(...found.columns.map((name) => element("label", {},
      element("input", { type: "checkbox", value: name, checked: arms.includes(name) }), ` ${name}`)));
    for (const id of ["by", "segment", "weight", "propensity"]) options($(id), found.columns, "no such column", asked[id]);
    $("decimal").value = asked.decimal || guess.decimal;
    for (const id of TEXTS) $(id).value = asked[id] || (asked.arm || asked.wide ? "" : guess[id]) || "";
    if (asked.missing) $("missing").value = asked.missing.join(" ") || "none";
    for (const id of TICKS) $(id).checked = Boolean(asked[id]);
    $("loss").checked = asked.loss === undefined ? guess.loss : Boolean(asked.loss);
    $("range").value = asked.range || "unknown";
    [$("range-lo").value, $("range-hi").value] = asked.ends || ["", ""];
    rangeEnds();
    $("preview").replaceChildren(element("table", {},
      element("thead", {}, element("tr", {}, found.columns.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, found.rows.slice(0, 4).map((row) => element("tr", {}, row.map((cell) => element("td", {}, cell)))))));
  }

  // What one reward is, above the answer; where there are dates it can be a day, a week or a month.
  function outcome(found) {
    const { read } = found, choices = Object.entries(read.outcomes_can_be);
    $("per").replaceChildren(...choices.map(([value, words]) => element("option", { value, selected: value === (read.per || "") }, words)));
    $("per-choice").hidden = choices.length < 2;
    $("outcome").textContent = `${choices.length < 2 ? `One reward is ${choices[0][1]}. ` : ""}${read.outcome}`;
    $("outcome").hidden = !$("outcome").textContent;
  }

  // The table of the answer has the words of the user's own table.
  function heads({ wide, arm, currency, measured_in: unit }) {
    const money = unit || currency ? ` (${unit || currency})` : "";
    $("arm-head").textContent = wide || arm.toLowerCase() === "arm" ? "arm" : `${arm} (arm)`;
    $("worth-number").textContent = `score${money}`;
    $("average-head").textContent = `average${money}`;
  }

  function show(found) {
    const other = state.table !== found.table, { read } = found;
    Object.assign(state, { table: found.table, file: found.name, when: found.when, per: read && read.per });
    wrong("table-wrong", null);
    wrong("read-wrong", null);
    wrong("per-wrong", null);
    $("columns").hidden = false;
    if (other || read) fill(found);
    wideOrLong();
    $("why-asked").textContent = read ? "" : found.why;
    $("why-asked").hidden = Boolean(read) || !found.why;
    $("table-own").hidden = !found.own;
    $("table-file").href = `table?table=${found.table}`;
    $("file").textContent = read ? `${found.name}: ${read.outcomes.toLocaleString("en")} rewards of ${read.count} arms` : found.name;
    $("columns-said").textContent = !read ? "Say which columns hold the arms and the rewards"
      : $("wide").checked ? "Each column is an arm. Change how it is read"
        : `Arm: “${$("arm").value}”, reward: “${$("reward").value}”. Change how it is read`;
    $("columns-details").open = !read;
    $("source").open = false;
    $("source-said").textContent = "Take another table";
    $("account").textContent = read ? read.account || "Every row could be used." : "";
    $("findings").replaceChildren(...(read ? read.findings : []).map((one) => element("li", {}, one.said, one.button ? " " : null,
      one.button ? element("button", { type: "button", onclick: () => choose(one) }, one.button) : null)));
    if (read) heads(found.asked);
    if (read) outcome(found);
    else $("waiting").textContent = `There is no answer for ${found.name} yet: say in part 1 which columns hold the arms and the rewards.`;
    for (const id of ["charts", "compare", "take", "limits", "result"]) $(id).hidden = !read;
    $("waiting").hidden = Boolean(read);
    stale(false);
    taken(found, other);
  }

  // While a table is on its way, and after a mistake in how to read it, what is shown is not the answer.
  async function taking(promise, place = "table-wrong") {
    const before = $("file").textContent;
    wrong(place, null);
    $("file").textContent = "Reading …";
    stale(true);
    try {
      show(await promise);
    } catch (error) {
      $("file").textContent = before;
      wrong(place, error);
      stale(false); // the table from before is still there, read as before
    }
  }

  async function drop(file) {
    const answer = await fetch(`drop?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file });
    const data = await answer.json();
    if (!answer.ok) throw new Error(data.error);
    return data;
  }

  // A button beside what was noticed: it sets the choice, and the table is read again.
  function choose({ option, value }) {
    if (value === true) $(option).checked = true;
    else $(option).value = value;
    read(option === "unit" ? "" : state.per || "", "read-wrong");
  }

  const end = (id) => ($(id).value.trim() === "" ? "" : Number($(id).value.replace(",", ".")));

  function read(per, place) {
    const columns = [...$("wide-list").querySelectorAll("input:checked")].map((box) => box.value);
    const asked = { table: state.table, wide: $("wide").checked && columns, loss: $("loss").checked, per,
      range: { kind: $("range").value, lo: end("range-lo"), hi: end("range-hi") } };
    for (const id of CHOICES) asked[id] = $(id).value;
    for (const id of TICKS) asked[id] = $(id).checked;
    if (per) asked.unit = "";
    if (per && per !== "time" && state.when) { state.lent = state.lent || !asked.time; asked.time = state.when; }
    else if (!per && state.lent) { state.lent = false; asked.time = ""; } // dates were asked for by the period only
    return taking(post("read", asked), place);
  }

  $("pick").addEventListener("change", () => { if ($("pick").files[0]) taking(drop($("pick").files[0])); });
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      $("drop").classList.toggle("over", kind === "dragover");
      if (kind === "drop" && event.dataTransfer.files[0]) taking(drop(event.dataTransfer.files[0]));
    });
  }
  $("wide").addEventListener("change", wideOrLong);
  $("time").addEventListener("change", () => { state.lent = false; });
  $("range").addEventListener("change", rangeEnds);
  $("columns").addEventListener("submit", (event) => { event.preventDefault(); read($("unit").value ? "" : state.per || "", "read-wrong"); });
  $("per").addEventListener("change", () => read($("per").value, "per-wrong"));
  return { show, taking, per: (period) => read(period, "per-wrong") };
};
