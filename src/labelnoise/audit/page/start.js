// --- keys ---

const KEYS = [
  ["K", "keep the given label", () => decide(keeping())],
  ["A", "accept the suggestion", () => grid.current && decide(accepted(grid.current))],
  ["L", "choose another label: type, Enter", openChooser],
  ["B", "mark as bad: leave the sample out", () => decide(spoiled())],
  ["U", "undo", undo],
  ["C", "clear the decision", () => decide(null)],
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
  const lines = [...KEYS, ["Enter", "accept the suggestion"], ...labels, ["Arrows", "move"], ["Home, End", "to the first, to the last"]];
  byId("key-list").append(...lines.flatMap(([key, text]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, text)]));
}

// --- the page ---

const firstOpen = () => grid.shown.find((suspect) => !decisions.has(suspect.row));

function begin() {
  backToList();
  const first = firstOpen() ?? grid.current;
  if (first) goTo(first);
  else byId("bar").scrollIntoView();
}

// A filter is done or finds nothing: all is shown again, from the first that is undecided.
function goOn() {
  tell("");
  clearFields();
  applyFilter();
  begin();
}

function start() {
  load();
  writeHead();
  writeRate();
  drawBars();
  prepareHeat();
  fillChoices();
  listKeys();
  if (narrow.matches) byId("filters").open = false;
  applyFilter();
  const first = firstOpen();
  if (first && first !== grid.current) goTo(first, {still: true});
  for (const id of FIELDS) byId(id).addEventListener("input", applyFilter);
  const clicks = {
    clear: () => { clearFields(); applyFilter(); }, "go-on": goOn, "show-all": goOn, begin, undo, export: download, help: () => byId("keys").showModal(),
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
