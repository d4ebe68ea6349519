"use strict";

// Which traces there are, what to offer of them, and what they say.
// Pure functions; a trace is as in a run's items: all that it has beside its
// prompt and its cycles is the item's key, whatever the axes of the grid.
Object.assign(
  window.explorer,
  (() => {
    const { expectedLength, pathTo } = window.explorer;

    const keyOf = ({ prompt, cycles, ...key }) => key;
    const nameOf = (trace) => Object.values(keyOf(trace)).join("/");
    const askedOf = ({ task, question, turn }) => `${task}/${question}/${turn}`;
    function runOf(trace) {
      const { task, question, turn, tree, ...run } = keyOf(trace);
      return Object.values(run).join("/");
    }
    // Of the selects, each of which offers what those before it leave.
    const VALUES = { tree: (one) => one.tree, question: askedOf, run: runOf };

    /**
     * Pairs (value, text) of what each select offers beside a trace.
     *
     * `runs` has the words for each trace's run.
     */
    function choices(traces, trace, runs) {
      const sameTree = traces.filter((one) => one.tree === trace.tree);
      const pairs = (own, value, text) => [
        ...new Map(own.map((one) => [value(one), text(one)])),
      ];
      return {
        tree: pairs(traces, VALUES.tree, VALUES.tree),
        question: pairs(sameTree, askedOf, (one) => {
          const turn = one.turn ? `, turn ${one.turn + 1}` : "";
          return `${one.task} ${one.question}${turn}`;
        }),
        run: pairs(
          sameTree.filter((one) => askedOf(one) === askedOf(trace)),
          runOf,
          (one) => runs[traces.indexOf(one)],
        ),
      };
    }

    /** The trace that has this tree, question or run, and differs least. */
    function chosen(traces, trace, name, value) {
      const names = Object.keys(VALUES);
      const above = names.slice(0, names.indexOf(name));
      const fits = traces.filter(
        (one) =>
          VALUES[name](one) === value &&
          above.every((own) => VALUES[own](one) === VALUES[own](trace)),
      );
      const fields = Object.keys(keyOf(trace));
      const alike = (one) =>
        fields.filter((field) => one[field] === trace[field]).length;
      return fits.reduce((a, b) => (alike(b) > alike(a) ? b : a));
    }

    /** The rule that ran; undefined if not in the panel. */
    function ranRule({ verifier }, cycle) {
      return verifier in cycle.stop ? verifier : undefined;
    }

    /** What the rule that ran is expected to gain over another in a cycle. */
    function gainIn(trace, cycle) {
      const ran = ranRule(trace, cycle);
      const other = Object.keys(cycle.stop).find((rule) => rule !== ran);
      if (!ran || !other) return 0;
      return expectedLength(cycle, ran) - expectedLength(cycle, other);
    }

    /** The cycle to open at: of the first tree and rule, nearest to the mean. */
    function typical(traces) {
      const [first] = traces;
      const all = traces
        .filter(
          ({ tree, verifier }) =>
            tree === first.tree && verifier === first.verifier,
        )
        .flatMap((trace) =>
          trace.cycles.map((own, cycle) => ({
            trace,
            cycle,
            gain: gainIn(trace, own),
          })),
        );
      const mean = all.reduce((sum, { gain }) => sum + gain, 0) / all.length;
      const off = ({ gain }) => Math.abs(gain - mean);
      const { trace, cycle } = all.reduce((a, b) => (off(b) < off(a) ? b : a));
      return { trace, cycle };
    }

    /** The wanted rules, or the one that ran and one to compare it with. */
    function pair(rules, wanted, ran) {
      const known = wanted.filter((rule) => rules.includes(rule));
      if (known.length === Math.min(rules.length, 2)) return known;
      const first = ran ?? rules[0];
      const two = [first, ...rules.filter((rule) => rule !== first)];
      return rules.filter((rule) => two.slice(0, 2).includes(rule));
    }

    /** The text that a cycle gained in the run. */
    function gainedIn(cycle) {
      const path = pathTo(cycle.parents, cycle.node);
      const pieces = path.map((node) => cycle.pieces[node]);
      return [...pieces, cycle.bonus].join("");
    }

    /** What was said before a cycle; null where cycles are missing. */
    function saidBefore(cycles, place) {
      if (cycles.slice(0, place + 1).some(({ cycle }, i) => cycle !== i)) {
        return null;
      }
      return cycles.slice(0, place).map(gainedIn).join("");
    }

    /** The state of the explorer as an address, and back: null if it is none. */
    function addressOf({ trace, cycle, rules, steps, together }) {
      const fields = { trace: nameOf(trace), cycle, rules, steps };
      if (!together) fields.apart = 1;
      return new URLSearchParams(fields);
    }

    function stateAt(address, traces) {
      const asked = new URLSearchParams(address);
      const listed = (name) => (asked.get(name) ?? "").split(",");
      const trace = traces.find((one) => nameOf(one) === asked.get("trace"));
      if (!trace) return null;
      const cycle = Number(asked.get("cycle"));
      return {
        trace,
        cycle: cycle in trace.cycles ? cycle : 0,
        rules: listed("rules"),
        steps: listed("steps").map((step) => Math.max(Number(step) | 0, 0)),
        together: !asked.has("apart"),
      };
    }

    return {
      addressOf,
      askedOf,
      choices,
      chosen,
      gainedIn,
      pair,
      ranRule,
      runOf,
      saidBefore,
      stateAt,
      typical,
    };
  })(),
);
