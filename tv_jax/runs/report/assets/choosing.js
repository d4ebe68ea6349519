"use strict";

// What stands above the panels: what there is to choose, and the text so far.
Object.assign(
  window.explorer,
  (() => {
    const { askedOf, choices, element, gainedIn, runOf, saidBefore } =
      window.explorer;

    function fill(select, options, value) {
      const made = options.map(([own, text]) =>
        element("option", { value: own }, text),
      );
      select.replaceChildren(...made);
      select.value = value;
      select.closest("label").hidden = options.length < 2;
    }

    /** Fills the selects; `part(name)` is a part of the explorer. */
    function fillChoices(part, traces, runs, { trace, cycle }) {
      const { tree, question, run } = choices(traces, trace, runs);
      fill(part("tree"), tree, trace.tree);
      fill(part("question"), question, askedOf(trace));
      fill(part("run"), run, runOf(trace));
      const end = trace.cycles.at(-1).cycle + 1;
      const cycles = trace.cycles.map((own, place) => [
        place,
        `${own.cycle + 1} of ${end}`,
      ]);
      fill(part("cycle"), cycles, cycle);
      part("previous").setAttribute("aria-disabled", cycle === 0);
      const last = cycle === cycles.length - 1;
      part("next").setAttribute("aria-disabled", last);
      part("steppers").hidden = cycles.length < 2;
    }

    /** Shows the prompt, the answer so far, and hidden what is gained. */
    function fillContext(context, { trace, cycle }) {
      const before = saidBefore(trace.cycles, cycle);
      context.replaceChildren(
        element("span", { class: "prompt" }, trace.prompt ?? ""),
        before === null ? " … " : element("span", {}, before),
        element("mark", { hidden: "" }, gainedIn(trace.cycles[cycle])),
      );
    }

    return { fillChoices, fillContext };
  })(),
);
