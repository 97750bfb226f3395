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
  const stuck = byId("bar").getBoundingClientRect().top <= 0 && !(narrow.matches && byId("filters").open);
  grid.shown = suspects.filter(matcher()).sort(ORDERS[byId("sort").value] ?? ORDERS.worst);
  grid.place = new Map(grid.shown.map((suspect, position) => [suspect, position]));
  if (!grid.place.has(grid.current)) grid.current = grid.shown[Math.min(place, grid.shown.length - 1)] ?? null;
  byId("nothing").hidden = grid.shown.length > 0;
  lay();
  drawDetail();
  writeCounts();
  if (stuck && grid.current) intoSight(grid.place.get(grid.current)); // what the bar tells made it higher
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
  if (grid.current) intoSight(0);
  else byId("bar").scrollIntoView();
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
  const left = openElsewhere();
  if (done === all && left === 0 && past.length) {
    tell("All of them are decided. Export the decisions; labelnoise apply makes a corrected copy of the labels.");
  }
  byId("progress").firstElementChild.style.width = `${all ? 100 * done / all : 0}%`;
  filled(byId("progress"), {"aria-valuemin": 0, "aria-valuemax": all, "aria-valuenow": done}, []);
  byId("shown").textContent = `${plural(grid.shown.length, "suspect")} shown`;
  const open = grid.shown.filter((suspect) => !decisions.has(suspect.row));
  byId("accept-all").textContent = `Accept all ${number(open.length)}`;
  byId("accept-all").hidden = open.every(({given, suggested}) => given === suggested); // that is to keep
  byId("keep-all").textContent = `Keep all ${number(open.length)}`;
  byId("accept-all").parentElement.hidden = open.length === 0;
  byId("least").hidden = report.issues > 0 || grid.shown.length === 0;
  writeDone(open.length, left);
  byId("export").disabled = decisions.size === 0;
  if (!kept) tell("This browser keeps nothing for this page: export your decisions before you close it.");
}

// Of what the page shows unasked, how much is undecided.
function openElsewhere() {
  const usual = ofKind(anyFlagged ? "flagged" : "");
  return suspects.filter((suspect) => usual(suspect) && !decisions.has(suspect.row)).length;
}

// What to do where the filter leaves nothing to decide.
function writeDone(open, left) {
  const elsewhere = left ? `${number(left)} undecided elsewhere.` : "";
  byId("done").hidden = open > 0 || left === 0 || grid.shown.length === 0;
  byId("done").firstElementChild.textContent = `Done here; ${elsewhere}`;
  byId("nothing").firstElementChild.textContent = `Nothing matches the filter. ${elsewhere}`;
}

function tell(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}
