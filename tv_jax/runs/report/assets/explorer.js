"use strict";

// The tree explorer: what is looked at, the controls, the address.
(() => {
  const source = document.getElementById("explorer-data");
  if (!source) return;

  const { addressOf, chosen, element, fillChoices, fillContext, nodesTable } =
    window.explorer;
  const { pair, panel, ranRule, stateAt, typical } = window.explorer;
  const { traces, runs, colors } = JSON.parse(source.textContent);
  const home = document.getElementById("explorer");
  const part = (name) => home.querySelector(`[data-part="${name}"]`);

  const PACE = 900; // milliseconds a step, when played
  const NARROW = 520; // pixels: less room than this for a tree
  const MANY = 40; // nodes: more than this are drawn small

  const state = {
    ...typical(traces), // trace and cycle
    rules: [], // what the panels show
    steps: [], // where each panel is
    together: true, // whether the panels step together
  };
  let panels = [];
  let playing = null; // {timer, which}

  const cycleNow = () => state.trace.cycles[state.cycle];
  const ranNow = () => ranRule(state.trace, cycleNow());
  // Verifiers stand in the order of their colours.
  const rulesNow = () =>
    Object.keys(colors).filter((rule) => rule in cycleNow().stop);

  // The panels.

  function titleOf(rule, place) {
    if (rulesNow().length < 3) return element("h3", {}, rule);
    const options = rulesNow().map((name) => element("option", {}, name));
    const select = element("select", { "aria-label": "rule" }, ...options);
    select.value = rule;
    select.addEventListener("change", () => {
      state.rules[place] = select.value;
      render();
      remember();
    });
    return select;
  }

  function render() {
    pause();
    const cycle = cycleNow();
    state.rules = pair(rulesNow(), state.rules, ranNow());
    fillChoices(part, traces, runs, state);
    fillContext(part("context"), state);
    const narrow = part("panels").clientWidth < NARROW;
    panels = state.rules.map((rule, place) =>
      panel(cycle, rule, {
        color: colors[rule],
        ran: rule === ranNow(),
        compact: narrow || cycle.parents.length > MANY,
        title: titleOf(rule, place),
        act: (name) => act(name, place),
        go: (position) => move(concerned(place), () => position),
      }),
    );
    part("panels").replaceChildren(...panels.map((own) => own.root));
    part("together").closest("label").hidden = panels.length < 2;
    part("together").checked = state.together;
    part("table").replaceChildren(...nodesTable(cycle, state.rules));
    show();
  }

  function show() {
    panels.forEach((own, place) => {
      state.steps[place] = Math.min(state.steps[place] ?? 0, own.end);
      own.show(state.steps[place], playing?.which.includes(place));
    });
    // The run's gain is part of the text once its panel is through.
    const place = state.rules.indexOf(ranNow());
    const through = place >= 0 && state.steps[place] === panels[place].end;
    part("context").querySelector("mark").hidden = !through;
    part("context").scrollTop = part("context").scrollHeight;
  }

  // Steps.

  /** The panels that a button of this one moves. */
  function concerned(place) {
    const alone = !state.together && place !== undefined;
    return alone ? [place] : [...panels.keys()];
  }

  function move(which, target) {
    for (const place of which) {
      const { end } = panels[place];
      const to = target(state.steps[place], end);
      state.steps[place] = Math.min(Math.max(to, 0), end);
    }
    show();
    remember();
  }

  function pause() {
    clearInterval(playing?.timer);
    playing = null;
  }

  function play(which) {
    const through = () =>
      which.every((place) => state.steps[place] === panels[place].end);
    const tick = () => {
      move(which, (at) => at + 1);
      if (!through()) return;
      pause();
      show();
    };
    if (through()) move(which, () => 0);
    playing = { timer: setInterval(tick, PACE), which };
    tick();
  }

  function act(name, place) {
    const which = concerned(place);
    const wasPlaying = playing !== null;
    pause();
    const latest = Math.max(...which.map((one) => state.steps[one]));
    const acts = {
      start: () => move(which, () => 0),
      // Who came to an end earlier waits there.
      back: () => move(which, (at) => Math.min(at, latest - 1)),
      forward: () => move(which, (at) => at + 1),
      end: () => move(which, (_, end) => end),
      play: () => (wasPlaying ? show() : play(which)),
    };
    acts[name]();
  }

  const KEYS = {
    ArrowLeft: "back",
    ArrowRight: "forward",
    Home: "start",
    End: "end",
    " ": "play",
  };

  function onKey(event) {
    const { key, target } = event;
    const typing = target.closest("select, input, summary");
    const pressing = key === " " && target.closest("button");
    const special = event.ctrlKey || event.altKey || event.metaKey;
    if (typing || pressing || special) return;
    const own = panels.findIndex(({ root }) => root.contains(target));
    const place = own < 0 ? undefined : own;
    const by = { ArrowUp: -1, ArrowDown: 1 }[key];
    if (key in KEYS) act(KEYS[key], place);
    else if (by && place !== undefined) panels[place].look(by);
    else return;
    event.preventDefault();
  }

  // The address follows: a link opens the same tree, question, cycle and step.

  function remember() {
    history.replaceState(null, "", `#${addressOf(state)}`);
  }

  function recall() {
    const found = stateAt(location.hash.slice(1), traces);
    if (found) Object.assign(state, found);
    return found !== null;
  }

  // What the reader does.

  function moveTo(cycle) {
    if (!(cycle in state.trace.cycles)) return;
    state.cycle = cycle;
    state.steps = [];
    render();
    remember();
  }

  for (const name of ["tree", "question", "run"]) {
    part(name).addEventListener("change", ({ target }) => {
      state.trace = chosen(traces, state.trace, name, target.value);
      moveTo(0);
    });
  }
  part("cycle").addEventListener("change", ({ target }) =>
    moveTo(Number(target.value)),
  );
  part("previous").addEventListener("click", () => moveTo(state.cycle - 1));
  part("next").addEventListener("click", () => moveTo(state.cycle + 1));
  part("together").addEventListener("change", ({ target }) => {
    state.together = target.checked;
    remember();
  });
  home.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", () => {
    if (recall()) render();
  });
  let width = innerWidth;
  window.addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    render();
  });

  if (recall()) home.scrollIntoView();
  render();
})();
