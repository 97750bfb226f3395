// --- filter and sort ---

const FIELDS = ["given", "suggested", "state", "which", "low", "high", "text", "sort"];
const ORDERS = {
  worst: (one, other) => one.place - other.place,
  sure: (one, other) => other.confidence - one.confidence,
  pair: (one, other) => one.given - other.given || one.suggested - other.suggested,
  given: (one, other) => one.given - other.given,
  row: (one, other) => one.row - other.row,
};
const anyFlagged = suspects.some((suspect) => suspect.issue);

function fillChoices() {
  for (const key of ["given", "suggested"]) {
    const counts = new Map();
    for (const suspect of suspects) counts.set(suspect[key], (counts.get(suspect[key]) ?? 0) + 1);
    const places = [...counts.keys()].sort((one, other) => one - other);
    byId(key).append(make("option", {value: ""}, "all"),
      ...places.map((place) => make("option", {value: place}, `${classes[place]} (${counts.get(place)})`)));
  }
  clearFields();
}

function clearFields() {
  for (const id of FIELDS) byId(id).value = "";
  byId("sort").value = "worst";
  byId("which").value = anyFlagged ? "flagged" : "";
}

// Flagged ones, the others, or both.
const ofKind = (which) => (suspect) => which === "" || Boolean(suspect.issue) === (which === "flagged");

function matcher() {
  const value = Object.fromEntries(FIELDS.map((id) => [id, byId(id).value]));
  const low = value.low === "" ? 0 : Number(value.low), high = value.high === "" ? 1 : Number(value.high);
  const words = value.text.toLowerCase().split(/\s+/).filter(Boolean);
  return (suspect) => {
    const verdict = decisions.get(suspect.row)?.decision;
    return (value.given === "" || suspect.given === Number(value.given))
      && (value.suggested === "" || suspect.suggested === Number(value.suggested))
      && ofKind(value.which)(suspect)
      && (value.state === "" || value.state === verdict || value.state === (verdict ? "decided" : "undecided"))
      && suspect.quality >= low && suspect.quality <= high
      && words.every((word) => searched(suspect).includes(word));
  };
}

function searched(suspect) {
  const {text = "", table: pairs = []} = suspect.exhibit;
  suspect.searched ??= [suspect.id, text, ...pairs.map(([, value]) => value)].join(" ").toLowerCase();
  return suspect.searched;
}

function applyFilter() {
  const place = grid.place.get(grid.current) ?? 0;
  grid.shown = suspects.filter(matcher()).sort(ORDERS[byId("sort").value] ?? ORDERS.worst);
  grid.place = new Map(grid.shown.map((suspect, position) => [suspect, position]));
  if (!grid.place.has(grid.current)) grid.current = grid.shown[Math.min(place, grid.shown.length - 1)] ?? null;
  byId("nothing").hidden = grid.shown.length > 0;
  lay();
  drawDetail();
  writeCounts();
}

// From the heat map or a bar: the suspects of a pair, from the first on.
function choosePair(given, suggested) {
  const chosen = (id, place) => {
    if (place !== null && ![...byId(id).options].some((option) => option.value === String(place))) {
      byId(id).append(make("option", {value: place}, `${classes[place]} (0)`));
    }
    byId(id).value = place === null ? "" : String(place);
  };
  clearFields();
  chosen("given", given);
  chosen("suggested", suggested);
  if (!suspects.some((suspect) => matcher()(suspect))) byId("which").value = "";
  grid.current = null;
  applyFilter();
  byId("bar").scrollIntoView();
  backToList();
}

function writeCounts() {
  byId("undo").disabled = past.length === 0;
  const counts = {[KEEP]: 0, [RELABEL]: 0, [BAD]: 0};
  const pool = suspects.filter(ofKind(byId("which").value));
  for (const {row} of pool) if (decisions.has(row)) counts[decisions.get(row).decision]++;
  const [done, all] = [counts.keep + counts.relabel + counts.bad, pool.length];
  const words = `: ${number(counts.relabel)} relabelled, ${number(counts.keep)} kept, ${number(counts.bad)} bad`;
  byId("counts").replaceChildren(`${number(done)} of ${number(all)} decided`, make("span", {}, done ? words : ""));
  if (done === all && past.length) {
    tell("All of them are decided. Export the decisions; labelnoise apply makes a corrected copy of the labels.");
  }
  byId("progress").firstElementChild.style.width = `${all ? 100 * done / all : 0}%`;
  filled(byId("progress"), {"aria-valuemin": 0, "aria-valuemax": all, "aria-valuenow": done}, []);
  byId("shown").textContent = `${plural(grid.shown.length, "suspect")} shown`;
  const open = grid.shown.filter((suspect) => !decisions.has(suspect.row)).length;
  byId("accept-all").textContent = `Accept all ${number(open)}`;
  byId("keep-all").textContent = `Keep all ${number(open)}`;
  byId("accept-all").parentElement.hidden = open === 0;
  byId("export").disabled = decisions.size === 0;
  if (!kept) tell("This browser keeps nothing for this page: export your decisions before you close it.");
}

function tell(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}

// --- deciding ---

function decide(decision) {
  const suspect = grid.current;
  if (!suspect) return;
  tell("");
  const next = nextOpen(grid.place.get(suspect));
  record([[suspect, decision]]);
  if (byId("state").value) { // it may have left the list, and the next one moved to its place
    applyFilter();
    return goTo(grid.current);
  }
  redraw(suspect);
  writeCounts();
  goTo(decision ? next : suspect);
}

function decideAll(verdict) {
  const open = grid.shown.filter((suspect) => !decisions.has(suspect.row));
  record(open.map((suspect) => [suspect, verdict(suspect)]));
  tell(`${plural(open.length, "decision")} made; Undo takes them back together.`);
  applyFilter();
}

function undo() {
  const suspects = takeBack();
  if (!suspects) return;
  tell("");
  applyFilter();
  if (grid.place.has(suspects[0])) goTo(suspects[0]);
}

// --- the sample under review ---

const FEW = 10; // classes that have a button each
const digitNames = classes.every((name) => /^\d$/.test(name));
const keyOf = (place) => digitNames ? classes[place] : place < FEW ? String((place + 1) % 10) : "";

function drawDetail() {
  const suspect = grid.current, box = byId("detail");
  box.hidden = !suspect;
  if (!suspect) return;
  const verdict = decisions.get(suspect.row);
  const [given, suggested] = [classes[suspect.given], classes[suspect.suggested]];
  const same = given === suggested;
  const place = `${number(grid.place.get(suspect) + 1)} of ${number(grid.shown.length)}`;
  box.className = `detail ${KIND} ${verdict?.decision ?? "open"}`;
  box.replaceChildren(
    large(suspect),
    make("div", {class: "facts"},
      make("p", {class: "sample"}, make("span", {class: "id", title: suspect.id}, suspect.id), make("span", {class: "where"}, place)),
      make("dl", {}, ...fact("given", given), ...fact("suggested", suggested),
        ...fact("confidence", percent(suspect.confidence, 0), suspect.confidence),
        ...fact("quality", suspect.quality.toFixed(2), suspect.quality)),
      make("p", {class: "verdict"}, verdict ? verdictText(verdict) : "not decided")),
    make("div", {class: Math.max(given.length, suggested.length) > 6 ? "choices long" : "choices"},
      action("Keep", given, "K", () => decide(keeping()), KEEP),
      ...(same ? [] : [action("Relabel", suggested, "A", () => decide(accepted(suspect)), RELABEL)]),
      action("Other\u2026", "", "L", openChooser, "other"),
      action("Bad", "", "B", () => decide(spoiled()), BAD)),
    ...(classes.length <= FEW ? [makeChips(suspect)] : []),
    make("div", {class: "steps"}, action("\u2190", "", "", () => step(-1), "previous", "Previous"),
      action("\u2192", "", "", () => step(1), "next", "Next"),
      ...(verdict ? [action("Clear decision", "", "", () => decide(null), "clear")] : [])));
}

function fact(name, text, share = null) {
  const value = make("dd", {title: text}, text);
  if (share !== null) {
    const fill = make("i");
    fill.style.width = `${100 * share}%`;
    value.append(make("span", {class: "meter", "aria-hidden": "true"}, fill));
  }
  return [make("dt", {}, name), value];
}

function verdictText({decision, label}) {
  return decision === RELABEL ? `relabelled as ${label}` : decision === KEEP ? "label kept" : "marked as bad";
}

function action(word, name, key, act, kind, title = "") {
  const button = make("button", {type: "button", class: `act ${kind}`, ...(title ? {"aria-label": title, title} : {})},
    make("span", {}, word), ...(name ? [make("b", {title: name}, name)] : []), ...(key ? [make("kbd", {}, key)] : []));
  button.addEventListener("click", act);
  return button;
}

function makeChips(suspect) {
  const chips = classes.map((name, place) => {
    const chip = make("button", {type: "button", title: `relabel as ${name}`}, name,
      ...(digitNames || !keyOf(place) ? [] : [make("kbd", {}, keyOf(place))]));
    chip.addEventListener("click", () => decide(labelled(suspect, name)));
    return chip;
  });
  return make("div", {class: classes.every((name) => name.length < 3) ? "chips short" : "chips", role: "group", "aria-label": "Labels"}, ...chips);
}

// --- choosing another label ---

const chooser = {found: [], place: 0};

function openChooser() {
  if (!grid.current) return;
  byId("typed").value = "";
  findLabels();
  byId("chooser").showModal();
}

function findLabels() {
  const typed = byId("typed").value.trim(), wanted = typed.toLowerCase();
  const starts = classes.filter((name) => name.toLowerCase().startsWith(wanted));
  const holds = classes.filter((name) => name.toLowerCase().includes(wanted) && !starts.includes(name));
  const exact = [...starts, ...holds].sort((one, other) => (other === typed) - (one === typed));
  chooser.found = exact.slice(0, 50).map((name) => ({name, text: name}));
  if (report.new_classes && typed && !classes.includes(typed)) {
    chooser.found.push({name: typed, text: `new class: ${typed}`});
  }
  chooser.place = 0;
  drawLabels();
}

function drawLabels() {
  const options = chooser.found.map(({name, text}, place) => {
    const option = make("div", {role: "option", id: `choice-${place}`, "aria-selected": String(place === chooser.place)}, text);
    option.addEventListener("click", () => choose(name));
    return option;
  });
  byId("choices").replaceChildren(...options);
  if (options.length === 0) byId("choices").append(make("p", {class: "note"}, "no such class"));
  byId("typed").setAttribute("aria-activedescendant", `choice-${chooser.place}`);
  options[chooser.place]?.scrollIntoView({block: "nearest"});
}

function choose(name) {
  byId("chooser").close();
  backToList();
  decide(labelled(grid.current, name));
}

// At once: until the next frame a closed dialog's field would still swallow keys.
function backToList() {
  byId("list").focus({preventScroll: true});
}

function keyInChooser(event) {
  const by = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (by) {
    chooser.place = Math.min(Math.max(chooser.place + by, 0), chooser.found.length - 1);
    drawLabels();
  } else if (event.key === "Enter") {
    if (chooser.found[chooser.place]) choose(chooser.found[chooser.place].name);
  } else return;
  event.preventDefault();
}

// --- keys ---

const KEYS = [
  ["K", "keep the given label", () => decide(keeping())],
  ["A", "accept the suggestion", () => grid.current && decide(accepted(grid.current))],
  ["L", "choose another label: type, Enter", openChooser],
  ["B", "mark as bad: leave the sample out", () => decide(spoiled())],
  ["U", "undo", undo],
  ["C", "clear the decision", () => decide(null)],
  ["J", "next", () => step(1)],
  ["P", "previous", () => step(-1)],
  ["N", "next undecided", () => grid.current && goTo(nextOpen(grid.place.get(grid.current)))],
  ["?", "these keys", () => byId("keys").showModal()],
];
const MOVES = {
  ArrowRight: () => step(1), ArrowLeft: () => step(-1),
  ArrowDown: () => step(grid.columns), ArrowUp: () => step(-grid.columns),
  Home: () => step(-Infinity), End: () => step(Infinity),
};
const actions = {...MOVES, "/": openChooser, ...Object.fromEntries(KEYS.map(([key, , act]) => [key.toLowerCase(), act]))};

function pressed(event) {
  if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
  if (event.target.closest("input, select, textarea, #heat")) return;
  if ((event.ctrlKey || event.metaKey) && event.key === "z") { event.preventDefault(); return undo(); }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const onControl = event.target.closest("button, summary, a");
  const label = classes.length <= FEW ? classes.findIndex((_, place) => keyOf(place) === event.key) : -1;
  if (label >= 0 && grid.current) decide(labelled(grid.current, classes[label]));
  else if (event.key === "Enter" && !onControl && grid.current) decide(accepted(grid.current));
  else if (actions[event.key.length === 1 ? event.key.toLowerCase() : event.key]) {
    actions[event.key.length === 1 ? event.key.toLowerCase() : event.key]();
  } else return;
  event.preventDefault();
}

function listKeys() {
  const labels = classes.length <= FEW ? [[digitNames ? "0 to 9" : classes.length === FEW ? "1 to 9, 0" : `1 to ${classes.length}`, "give that label"]] : [];
  const lines = [...KEYS, ["Enter", "accept the suggestion"], ...labels, ["Arrows, Home, End", "move"]];
  byId("key-list").append(...lines.flatMap(([key, text]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, text)]));
}

// --- the page ---

function start() {
  load();
  writeHead();
  writeRate();
  drawBars();
  prepareHeat();
  fillChoices();
  listKeys();
  if (innerWidth < 700) byId("filters").open = false;
  applyFilter();
  const first = grid.shown.find((suspect) => !decisions.has(suspect.row));
  if (first && first !== grid.current) goTo(first, {still: true});
  for (const id of FIELDS) byId(id).addEventListener("input", applyFilter);
  const clicks = {
    clear: () => { clearFields(); applyFilter(); }, undo, export: download, help: () => byId("keys").showModal(),
    import: () => byId("file").click(), close: () => byId("keys").close(),
    "accept-all": () => decideAll(accepted), "keep-all": () => decideAll(keeping),
  };
  for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", act);
  byId("file").addEventListener("change", async ({target}) => {
    const text = target.files.length ? await target.files[0].text() : null;
    target.value = "";
    if (text === null) return;
    const told = takeIn(text);
    applyFilter();
    tell(told);
  });
  for (const id of ["chooser", "keys"]) listenTo(byId(id), ["cancel", "close"], backToList);
  byId("typed").addEventListener("input", findLabels);
  byId("typed").addEventListener("keydown", keyInChooser);
  document.addEventListener("keydown", pressed);
  listenTo(window, ["scroll", "resize"], drawGrid);
  new ResizeObserver(() => {
    document.documentElement.style.setProperty("--bar", `${byId("bar").offsetHeight}px`);
  }).observe(byId("bar"));
  let width = 0;
  new ResizeObserver(([{contentRect}]) => {
    if (contentRect.width !== width) { width = contentRect.width; lay(); }
  }).observe(byId("list"));
  addEventListener("storage", ({key}) => { if (key === SHELF) { load(); applyFilter(); } }); // another tab
  addEventListener("beforeunload", (event) => { if (!kept && !exported && decisions.size) event.preventDefault(); });
}

start();
