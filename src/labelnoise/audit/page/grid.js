// --- the suspects as a grid of which only what is in sight exists ---

const KIND = Object.keys(suspects[0]?.exhibit ?? {table: []}).find((key) => ["image", "text", "table"].includes(key));
const GAP = 10;
const BEYOND = 2; // lines of cards that exist above and below the window
const SUMMARY = 5; // columns of a table that a card has room for
const LONG = Math.max(...classes.map((name) => name.length)) > 7; // two names have no room in one line
const CARD = {
  image: {width: 132, height: LONG ? 196 : 176},
  text: {width: 400, height: 62 + 19 * textLines()},
  table: {width: 264, height: 66 + 22 * tableLines()},
}[KIND];

// As many as the longest needs, within reason; the panel has the rest.
function textLines() {
  const longest = Math.max(0, ...suspects.map(({exhibit}) => exhibit.text?.length ?? 0));
  return Math.min(Math.max(Math.ceil(longest / 45), 2), 5);
}

function tableLines() {
  const {table: columns = [], left = 0} = suspects[0]?.exhibit ?? {};
  return Math.min(columns.length, SUMMARY) + (columns.length + left > SUMMARY ? 1 : 0);
}

const narrow = matchMedia("(max-width: 46rem)"); // the panel lies over the list, filters are folded
const grid = {shown: [], place: new Map(), current: null, cards: new Map(), columns: 1};

function lay() {
  const width = byId("list").clientWidth;
  const narrowest = Math.min(CARD.width, (width - GAP) / (KIND === "image" ? 2 : 1));
  grid.columns = Math.max(1, Math.floor((width + GAP) / (narrowest + GAP)));
  grid.width = (width - GAP * (grid.columns - 1)) / grid.columns;
  const lines = Math.ceil(grid.shown.length / grid.columns);
  byId("list").style.height = `${Math.max(0, lines * (CARD.height + GAP) - GAP)}px`;
  for (const card of grid.cards.values()) card.remove();
  grid.cards.clear();
  drawGrid();
}

function drawGrid() {
  const step = CARD.height + GAP;
  const top = -byId("list").getBoundingClientRect().top;
  document.body.classList.toggle("elsewhere", -top > innerHeight * .75); // the list is out of sight
  const first = Math.max(0, Math.floor(top / step) - BEYOND) * grid.columns;
  const last = Math.max(0, Math.ceil((top + innerHeight) / step) + BEYOND) * grid.columns;
  const wanted = new Set(grid.shown.slice(first, last));
  for (const [suspect, card] of grid.cards) {
    if (wanted.has(suspect)) continue;
    card.remove();
    grid.cards.delete(suspect);
  }
  for (const suspect of wanted) {
    if (!grid.cards.has(suspect)) addCard(suspect);
  }
}

function addCard(suspect) {
  const place = grid.place.get(suspect);
  const [line, column] = [Math.floor(place / grid.columns), place % grid.columns];
  const card = makeCard(suspect, place);
  card.style.width = `${grid.width}px`;
  card.style.height = `${CARD.height}px`;
  card.style.transform = `translate(${column * (grid.width + GAP)}px, ${line * (CARD.height + GAP)}px)`;
  grid.cards.set(suspect, card);
  byId("list").append(card);
}

function makeCard(suspect, place) {
  const verdict = decisions.get(suspect.row);
  const here = suspect === grid.current;
  const card = make("div", {
    class: `card ${KIND} ${verdict?.decision ?? "open"}${LONG ? " long" : ""}`, role: "option", id: `suspect-${suspect.row}`,
    "aria-selected": String(here), "aria-posinset": place + 1, "aria-setsize": grid.shown.length,
  }, small(suspect), makePair(suspect, verdict), makeFoot(suspect, verdict));
  card.addEventListener("click", () => goTo(suspect, {still: true}));
  return card;
}

// The card of a suspect anew, where there is one.
function redraw(suspect) {
  grid.cards.get(suspect)?.remove();
  if (grid.cards.delete(suspect) && grid.place.has(suspect)) addCard(suspect);
}

function makePair(suspect, verdict) {
  const [given, suggested] = [classes[suspect.given], classes[suspect.suggested]];
  const after = {[RELABEL]: verdict?.label, [KEEP]: given}[verdict?.decision] ?? suggested;
  const same = given === after;
  return make("div", {class: "pair", title: same ? given : `${given} \u2192 ${after}`},
    make("span", {class: same ? "after" : "before"}, ends(given)),
    ...(same ? [] : [make("span", {class: "arrow", "aria-label": "to"}, "\u2192"), make("span", {class: "after"}, ends(after))]));
}

const STATES = {[KEEP]: "\u2713 kept", [RELABEL]: "relabelled", [BAD]: "\u2715 bad"};

function makeFoot(suspect, verdict) {
  const name = make("span", {class: "id", title: suspect.id}, ends(suspect.id.split("/").at(-1) || suspect.id));
  const state = verdict ? STATES[verdict.decision] : percent(suspect.confidence, 0);
  const about = verdict ? {class: "state"} : {class: "sure", title: "confidence of the suggestion"};
  return make("div", {class: "foot"}, name, make("span", about, state));
}

function small({exhibit, id}) {
  if (exhibit.image) return picture(exhibit.image, id);
  if (exhibit.text !== undefined) return make("p", {class: "words"}, exhibit.text);
  return table(exhibit.table.slice(0, SUMMARY), exhibit.table.length - SUMMARY + (exhibit.left ?? 0));
}

function large({exhibit, id, given, suggested}) {
  if (exhibit.image) return picture(exhibit.image, id);
  if (exhibit.text !== undefined) return make("p", {class: "words", tabindex: 0}, exhibit.text);
  const names = [classes[given], ...(given === suggested ? [] : [classes[suggested]])];
  return table(exhibit.table, exhibit.left ?? 0, names);
}

function picture(address, name) {
  const image = make("img", {src: address, alt: `sample ${name}`, draggable: "false"});
  image.addEventListener("load", () => image.classList.toggle("crisp", image.naturalWidth <= 64));
  return make("div", {class: "picture"}, image);
}

// Columns and values; with the names of classes also what is usual in each of them.
function table(columns, left, names = []) {
  const cell = (text) => text.trim() ? make("td", {title: text}, text) : make("td", {class: "missing"}, "missing");
  const lines = columns.map(([name, value, ...usual]) => make("tr", {},
    make("th", {scope: "row", title: name}, name), cell(value), ...usual.slice(0, names.length).map(cell)));
  const body = make("tbody", {}, ...lines);
  const rest = left > 0 ? [make("p", {class: "note"}, `and ${left} more`)] : [];
  if (names.length === 0) return make("div", {class: "features"}, make("table", {}, body), ...rest);
  const heading = (text) => make("th", {scope: "col", title: `usual where the label is ${text}`}, text);
  const head = make("tr", {}, make("td"), make("th", {scope: "col"}, "this"), ...names.map(heading));
  return make("div", {class: "features wide", tabindex: 0}, make("table", {}, make("thead", {}, head), body), ...rest);
}

// --- where one is ---

function goTo(suspect, {still = false} = {}) {
  const before = grid.current;
  const unfolded = narrow.matches && byId("filters").open;
  if (unfolded) byId("filters").open = false; // they would cover the cards
  grid.current = suspect ?? null;
  for (const each of new Set([before, grid.current])) if (each) redraw(each);
  if (suspect) byId("list").setAttribute("aria-activedescendant", `suspect-${suspect.row}`);
  drawDetail();
  if (suspect && (unfolded || !still)) intoSight(grid.place.get(suspect));
}

// Near the top, with at most one line above it, so that what comes next is in sight. From the
// overview this also brings the panel with its buttons into the window.
function intoSight(place) {
  const step = CARD.height + GAP, line = Math.floor(place / grid.columns);
  const top = byId("list").getBoundingClientRect().top + line * step;
  const ceiling = byId("bar").offsetHeight + GAP;
  const floor = innerHeight - (narrow.matches ? byId("detail").offsetHeight : 0);
  const lowest = ceiling + (line > 0 && !narrow.matches && step <= (floor - ceiling) / 3 ? step : 0);
  if (top < ceiling) scrollBy(0, top - ceiling);
  else if (top > lowest) scrollBy(0, top - lowest);
  drawGrid();
}

function step(by) {
  const place = grid.place.get(grid.current) ?? -1;
  const next = Math.min(Math.max(place + by, 0), grid.shown.length - 1);
  if (grid.shown[next]) goTo(grid.shown[next]);
}

// The next one that is undecided, round the end if need be; without any, simply the next.
function nextOpen(place) {
  const {shown} = grid;
  const turn = [...shown.slice(place + 1), ...shown.slice(0, place)];
  return turn.find((suspect) => !decisions.has(suspect.row)) ?? shown[Math.min(place + 1, shown.length - 1)];
}
