// --- suspects and what was decided about them ---

const suspects = report.suspects.row.map((row, place) => ({
  place, row,
  ...Object.fromEntries(["id", "given", "suggested", "confidence", "quality", "issue", "exhibit"]
    .map((key) => [key, report.suspects[key][place]])),
}));
const byRow = new Map(suspects.map((suspect) => [suspect.row, suspect]));
const KEEP = "keep", RELABEL = "relabel", BAD = "bad";
const HEADING = ["sample_id", "row", "given_label", "decision", "new_label"];
const SHELF = `labelnoise-review-${report.audit}`; // of this audit alone

let decisions = new Map(); // from row to {decision, label}
const past = []; // what to put back, the latest last
let exported = true, kept = true;

function load() {
  try {
    const found = JSON.parse(localStorage.getItem(SHELF) ?? "{}");
    decisions = new Map(Object.entries(found).map(([row, [decision, label]]) => [Number(row), {decision, label}])
      .filter(([row]) => byRow.has(row)));
  } catch {
    kept = false;
  }
}

function save() {
  exported = false;
  try {
    const entries = [...decisions].map(([row, {decision, label}]) => [row, [decision, label]]);
    localStorage.setItem(SHELF, JSON.stringify(Object.fromEntries(entries)));
    kept = true;
  } catch {
    kept = false;
  }
}

// What follows from naming a label: the given one is kept, another one takes its place.
function labelled(suspect, name) {
  return name === classes[suspect.given] ? {decision: KEEP, label: ""} : {decision: RELABEL, label: name};
}

const accepted = (suspect) => labelled(suspect, classes[suspect.suggested]);
const keeping = () => ({decision: KEEP, label: ""});
const spoiled = () => ({decision: BAD, label: ""});

// All changes at once, so that one undo takes them back together.
function record(changes) {
  if (changes.length === 0) return;
  past.push(changes.map(([suspect]) => [suspect, decisions.get(suspect.row)]));
  for (const [suspect, decision] of changes) put(suspect, decision);
  save();
}

function put(suspect, decision) {
  if (decision) decisions.set(suspect.row, decision);
  else decisions.delete(suspect.row);
}

function takeBack() {
  const before = past.pop();
  if (!before) return null;
  for (const [suspect, decision] of before) put(suspect, decision);
  save();
  return before.map(([suspect]) => suspect);
}

// --- decisions.csv ---

const quoted = (text) => /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

function asCsv() {
  const lines = suspects.filter((suspect) => decisions.has(suspect.row))
    .sort((one, other) => one.row - other.row)
    .map(({id, row, given}) => {
      const {decision, label} = decisions.get(row);
      return [id, String(row), classes[given], decision, label].map(quoted).join(",");
    });
  return [HEADING.join(","), ...lines, ""].join("\r\n");
}

function download() {
  const address = URL.createObjectURL(new Blob([asCsv()], {type: "text/csv"}));
  make("a", {href: address, download: "decisions.csv"}).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
  exported = true;
}

function parseCsv(text) {
  const lines = [];
  let cells = [], cell = "", inside = false;
  for (let place = text[0] === "\ufeff" ? 1 : 0; place < text.length; place++) {
    const character = text[place];
    if (inside && character === '"' && text[place + 1] === '"') { cell += '"'; place++; }
    else if (character === '"' && (inside || cell === "")) inside = !inside;
    else if (!inside && character === ",") { cells.push(cell); cell = ""; }
    else if (!inside && (character === "\n" || character === "\r")) {
      if (character === "\r" && text[place + 1] === "\n") place++;
      lines.push([...cells, cell]);
      cells = []; cell = "";
    } else cell += character;
  }
  if (cell || cells.length) lines.push([...cells, cell]);
  return lines.filter((line) => line.length > 1 || line[0]);
}

// Of an earlier decisions.csv, what is about samples on this page; returns what to tell of it.
function takeIn(text) {
  const [heading = [], ...lines] = parseCsv(text);
  const places = HEADING.map((name) => heading.indexOf(name));
  if (places.includes(-1)) return `This is no decisions.csv: its columns are not ${HEADING.join(", ")}.`;
  const changes = [];
  for (const line of lines) {
    const [id, row, given, decision, label] = places.map((place) => line[place] ?? "");
    const suspect = byRow.get(Number(row));
    const known = suspect && suspect.id === id && classes[suspect.given] === given
      && [KEEP, RELABEL, BAD].includes(decision) && (decision === RELABEL) === (label !== "")
      && (!label || report.new_classes || classes.includes(label));
    if (known) changes.push([suspect, {decision, label}]);
  }
  record(changes);
  const left = lines.length - changes.length;
  return `${plural(changes.length, "decision")} taken in.`
    + (left ? ` ${plural(left, "line")} left out: not about labels on this page.` : "");
}
