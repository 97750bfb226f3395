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
      make("p", {class: "sample"}, make("span", {class: "id", title: suspect.id}, ends(suspect.id, 12)), make("span", {class: "where"}, place)),
      make("dl", {}, ...fact("given", given), ...fact("suggested", suggested),
        ...fact("confidence", percent(suspect.confidence, 0), suspect.confidence),
        ...fact("quality", suspect.quality.toFixed(2), suspect.quality)),
      make("p", {class: "verdict"}, verdict ? verdictText(verdict) : "not decided")),
    make("div", {class: given.length > 6 || suggested.length > 3 ? "choices long" : "choices"},
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
