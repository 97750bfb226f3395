// --- the noise at a glance ---

const classes = report.classes;
const number = (value) => value.toLocaleString("en");
const percent = (value, digits = 1) => `${(100 * value).toFixed(digits)} %`;
const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

// A name that is cut in its middle where it has no room, so that both ends can be read.
function ends(name, last = 5) {
  const letters = [...name];
  if (letters.length <= 2 * last) return name;
  return make("span", {class: "ends"}, make("span", {}, letters.slice(0, -last).join("")), make("span", {}, letters.slice(-last).join("")));
}

function writeHead() {
  document.title = `Labels of ${report.data}`;
  byId("title").textContent = document.title;
  const shown = suspects.length;
  const flagged = suspects.filter((suspect) => suspect.issue).length;
  const left = report.issues - flagged;
  const facts = [
    `${plural(report.samples, "label")}, ${number(report.issues)} flagged as wrong.`,
    report.issues === 0 ? `This page shows the ${number(shown)} least sure ones.`
      : `This page shows ${number(shown)}: ${number(flagged)} flagged and the ${number(shown - flagged)} next worst.`,
    ...(left > 0 ? [`${number(left)} more are flagged in issues.csv.`] : []),
    `Made ${report.made} by labelnoise ${report.version}.`,
  ];
  byId("made").textContent = facts.join(" ");
  byId("planted").hidden = !report.planted;
  byId("planted").textContent = `Wrong labels (${report.planted}) were planted to try the audit out: what is shown as given is not always the label of your data.`;
}

function writeRate() {
  const [low, high] = report.interval;
  byId("rate").textContent = percent(report.noise_rate);
  byId("interval").textContent = `by estimate; between ${percent(low)} and ${percent(high)}`;
  const [range, point] = byId("scale").children;
  range.style.left = `${100 * low}%`;
  range.style.width = `${100 * Math.max(high - low, .002)}%`;
  point.style.left = `${100 * report.noise_rate}%`;
  byId("told").textContent = expectation();
  drawBudgets();
}

function expectation() {
  if (report.issues === 0) return "Nothing is flagged: there is (almost) nothing to review. Below are the least sure ones.";
  const flagged = `${number(report.issues)} of ${plural(report.samples, "label")} ${report.issues === 1 ? "is" : "are"} flagged`;
  return `${flagged}; about ${percent(report.expected_precision, 0)} of them should be wrong.`;
}

// A forecast: how far a reviewer should get with so much patience.
function drawBudgets() {
  const useful = Object.entries(report.by_budget).filter(([budget]) => budget <= Math.max(2 * report.issues, 20));
  const line = (tag, ...texts) => make("tr", {}, ...texts.map((text) => make(tag, {}, text)));
  const about = (count) => count > 0 && count < .5 ? "under 1" : number(Math.round(count));
  const lines = useful.slice(-4).map(([budget, precision]) =>
    line("td", `worst ${number(Number(budget))}`, about(budget * precision), percent(precision, 0)));
  if (lines.length === 0) return;
  byId("budgets").append(make("thead", {}, line("th", "forecast: among the", "expected wrong", "share")), make("tbody", {}, ...lines));
}

// Where the scale of the bars may end; it says so, and nothing is drawn behind them as if it were a whole.
const ENDS = [.01, .02, .05, .1, .15, .2, .25, .3, .4, .5, .6, .8, 1];

function drawBars() {
  const lines = classes.map((name, place) => {
    const [all, flagged] = [report.samples_per_class[place], report.issues_per_class[place]];
    return {name, place, all, flagged, share: all ? flagged / all : 0};
  });
  const largest = Math.max(...lines.map((line) => line.share));
  const most = ENDS.find((end) => end >= largest) ?? 1;
  const longest = Math.max(...classes.map((name) => name.length));
  byId("bars").style.setProperty("--names", `${Math.min(Math.max(longest, 2), 14)}ch`);
  byId("bars").append(make("div", {class: "axis", "aria-hidden": "true"}, make("span", {}, "0"), make("span", {}, percent(most, 0))));
  lines.sort((one, other) => other.share - one.share || other.flagged - one.flagged);
  byId("bars").append(...lines.map((line) => {
    const fill = make("i");
    fill.style.width = `${100 * line.share / most}%`;
    const button = make("button", {type: "button", class: "share", title: `${line.name}: ${line.flagged} of ${line.all} flagged`},
      make("span", {class: "name"}, ends(line.name)), make("span", {class: "track"}, fill),
      make("span", {class: "value"}, `${percent(line.share)} of ${number(line.all)}`));
    button.addEventListener("click", () => choosePair(line.place, null));
    return button;
  }));
}

// --- heat map: a canvas, so that a hundred classes are no ten thousand elements ---

const NAMED = 24; // classes whose names have room beside the map
const WRITTEN = 12; // classes whose numbers have room in the cells
const ROOM = 240, LARGEST = 34, READABLE = 18; // pixels of the map, of a cell, of a cell with a number
const heat = {cells: new Map(), row: 0, column: 0, focused: false};

function prepareHeat() {
  for (const [row, column, value] of report.transition) heat.cells.set(row * classes.length + column, value);
  heat.most = Math.max(.001, ...report.transition.filter(([row, column]) => row !== column).map(([, , value]) => value));
  heat.pairs = new Map();
  for (const {given, suggested} of suspects) {
    const key = suggested * classes.length + given;
    heat.pairs.set(key, (heat.pairs.get(key) ?? 0) + 1);
  }
  const canvas = byId("heat");
  canvas.setAttribute("aria-label", `Estimated transition matrix of ${classes.length} classes`);
  canvas.addEventListener("pointermove", (event) => pointHeat(cellAt(event)));
  canvas.addEventListener("pointerleave", () => pointHeat(null));
  canvas.addEventListener("click", (event) => chooseCell(cellAt(event)));
  canvas.addEventListener("focus", () => pointHeat([heat.row, heat.column]));
  canvas.addEventListener("blur", () => pointHeat(null));
  canvas.addEventListener("keydown", moveInHeat);
  new ResizeObserver(drawHeat).observe(canvas.parentElement);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawHeat);
}

function drawHeat() {
  const canvas = byId("heat"), count = classes.length;
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const sharp = devicePixelRatio || 1;
  heat.margin = count <= NAMED ? Math.min(84, 12 + 6.2 * Math.max(...classes.map((name) => Math.min(name.length, 12)))) : 0;
  heat.size = Math.max(1, Math.min(canvas.parentElement.clientWidth - heat.margin, ROOM) / count);
  if (count > NAMED) heat.size = Math.max(1, Math.floor(heat.size));
  heat.size = Math.min(heat.size, LARGEST);
  const side = heat.margin + heat.size * count;
  canvas.width = canvas.height = Math.ceil(side * sharp);
  canvas.style.width = canvas.style.height = `${side}px`;
  const pen = canvas.getContext("2d");
  pen.scale(sharp, sharp);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const gap = heat.size > 8 ? 1 : 0;
  const inks = {rule: colour("--rule"), accent: colour("--accent"), page: colour("--page"), ink: colour("--ink")};
  if (!gap) { // too many to paint the empty ones one by one
    pen.fillStyle = inks.rule;
    pen.globalAlpha = .35;
    pen.fillRect(0, 0, side, side);
    for (const [row, column] of report.transition) drawCell(pen, row, column, 0, inks);
  } else {
    for (let row = 0; row < count; row++) {
      for (let column = 0; column < count; column++) drawCell(pen, row, column, gap, inks);
    }
  }
  if (heat.margin) drawNames(pen, colour);
  if (heat.point) {
    const [row, column] = heat.point;
    pen.strokeStyle = colour("--ink");
    pen.lineWidth = 2;
    pen.strokeRect(heat.margin + column * heat.size, heat.margin + row * heat.size, heat.size, heat.size);
  }
}

function drawCell(pen, row, column, gap, inks) {
  const value = heat.cells.get(row * classes.length + column) ?? 0;
  const [x, y] = [heat.margin + column * heat.size, heat.margin + row * heat.size];
  const strength = Math.min(1, (value / heat.most) ** .75);
  if (gap || row === column) {
    pen.fillStyle = inks.rule;
    pen.globalAlpha = row === column ? 1 : .35;
    pen.fillRect(x, y, heat.size - gap, heat.size - gap);
  }
  if (row !== column && value) {
    pen.fillStyle = inks.accent;
    pen.globalAlpha = strength;
    pen.fillRect(x, y, heat.size - gap, heat.size - gap);
  }
  pen.globalAlpha = 1;
  const digits = Math.round(100 * value);
  if (classes.length > WRITTEN || heat.size < READABLE || !digits) return;
  pen.fillStyle = row !== column && strength > .55 ? inks.page : inks.ink;
  pen.textAlign = "center";
  pen.fillText(String(digits), x + (heat.size - gap) / 2, y + heat.size / 2);
}

function drawNames(pen, colour) {
  pen.fillStyle = colour("--faint");
  classes.forEach((name, place) => {
    const letters = [...name];
    const text = letters.length > 12 ? `${letters.slice(0, 7).join("")}\u2026${letters.slice(-4).join("")}` : name;
    const middle = heat.margin + (place + .5) * heat.size;
    pen.textAlign = "right";
    pen.fillText(text, heat.margin - 6, middle, heat.margin - 8);
    pen.save();
    pen.translate(middle, heat.margin - 6);
    pen.textAlign = text.length > 2 ? "left" : "center";
    if (text.length > 2) pen.rotate(-Math.PI / 2);
    pen.fillText(text, 0, 0, heat.margin - 8);
    pen.restore();
  });
}

function cellAt({offsetX, offsetY}) {
  const row = Math.floor((offsetY - heat.margin) / heat.size);
  const column = Math.floor((offsetX - heat.margin) / heat.size);
  const inside = [row, column].every((place) => place >= 0 && place < classes.length);
  return inside ? [row, column] : null;
}

function pointHeat(cell) {
  heat.point = cell;
  drawHeat();
  if (!cell) return byId("cell").textContent = "";
  const [row, column] = [heat.row, heat.column] = cell;
  const value = heat.cells.get(row * classes.length + column) ?? 0;
  const count = heat.pairs.get(row * classes.length + column) ?? 0;
  const what = row === column ? `${classes[row]} given as itself` : `${classes[row]} given as ${classes[column]}`;
  byId("cell").textContent = `${what}: ${percent(value, 2)}, ${plural(count, "suspect")}`;
}

function chooseCell(cell) {
  if (cell) choosePair(cell[1], cell[0]);
}

function moveInHeat(event) {
  const steps = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
  if (event.key === "Enter") chooseCell([heat.row, heat.column]);
  else if (event.key in steps) {
    const inside = (place) => Math.min(Math.max(place, 0), classes.length - 1);
    const [down, right] = steps[event.key];
    pointHeat([inside(heat.row + down), inside(heat.column + right)]);
  } else return;
  event.preventDefault();
  event.stopPropagation();
}
