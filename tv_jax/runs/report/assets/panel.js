"use strict";

// One rule on one draft: its tree, its order, its steps.
Object.assign(
  window.explorer,
  (() => {
    const {
      ROOT,
      chances,
      closing,
      draw,
      element,
      expectedLength,
      marksAt,
      numbersOf,
      opening,
      telling,
      tokens,
      treeOf,
      walk,
    } = window.explorer;

    const BUTTONS = {
      start: ["«", "to the start"],
      back: ["‹", "one step back"],
      play: ["Play", "play or pause"],
      forward: ["›", "one step forward"],
      end: ["»", "to the end"],
    };

    /**
     * Makes a panel: {root, end, show, look}.
     *
     * It calls `act(name)` for a button and `go(position)` for a jump. To
     * `show(end)` is to show how it ended; `look(by)` moves to another node.
     */
    function panel(cycle, rule, { color, ran, compact, act, go, title }) {
      const course = walk(cycle, rule);
      const chance = chances(cycle, rule);
      const { depth } = treeOf(cycle.parents);
      const drawing = draw(cycle, rule, course.node, { compact, ran });
      const order = course.steps.map((step) => step.node);
      const end = order.length + 1;
      let position = 0;
      let inspected = null;

      const said = element("p", { class: "said", "aria-live": "polite" });
      const count = element("span", { class: "count" });
      const buttons = Object.entries(BUTTONS).map(([name, [text, label]]) => {
        const attributes = { type: "button", "aria-label": label };
        const button = element("button", attributes, text);
        button.dataset.act = name;
        button.title = label;
        button.addEventListener("click", () => act(name));
        return button;
      });
      const field = element("div", { class: "tree" }, drawing.svg);
      const about = element("dl", { class: "about" });
      const chips = order.map((node, place) => {
        const chip = element("li", {}, String(node));
        chip.addEventListener("click", () => go(place + 1));
        return chip;
      });
      const gained = depth[course.node] + 1;
      const numbers = element("p", { class: "numbers" });
      numbers.append(
        "expected ",
        element(
          "b",
          { class: "expected" },
          expectedLength(cycle, rule).toFixed(3),
        ),
        ", gained ",
        element("b", { class: "gained" }, String(gained)),
      );
      const root = element(
        "section",
        { class: "panel", tabindex: 0, role: "group" },
        element(
          "header",
          {},
          title,
          element(
            "span",
            { class: "badge" },
            ran ? "ran" : "on the same coins",
          ),
          numbers,
        ),
        element(
          "div",
          { class: "bar" },
          element("div", { class: "buttons" }, ...buttons, count),
          said,
          about,
        ),
        field,
        element("p", { class: "caption" }, "Order of verification"),
        element("ol", { class: "order" }, ...chips),
      );
      root.dataset.rule = rule;
      root.style.setProperty("--own", `var(--${color})`);
      root.setAttribute(
        "aria-label",
        `${rule}: arrow keys step, up and down look at other nodes`,
      );
      drawing.svg.setAttribute(
        "aria-label",
        `Drafted tree of ${cycle.parents.length} nodes;` +
          ` ${rule} accepts node ${course.node}, ${tokens(gained)}`,
      );

      function inspect(node) {
        inspected = node;
        describe();
      }

      function describe() {
        const now = course.steps[position - 1]?.node ?? course.node;
        const node = inspected ?? (position === 0 ? (order[0] ?? ROOT) : now);
        const rows = numbersOf(cycle, rule, node, chance[node]);
        about.replaceChildren(
          ...rows.map(([term, text]) =>
            element(
              "div",
              {},
              element("dt", {}, term),
              element("dd", {}, element("bdi", {}, text)),
            ),
          ),
        );
        for (const own of drawing.svg.querySelectorAll(".node")) {
          const is = Number(own.dataset.node) === inspected;
          own.classList.toggle("inspected", is);
        }
      }

      /** Keeps a node in view, inside the panel only. */
      function follow(node) {
        const { x, width } = drawing.place(node);
        const room = field.clientWidth;
        if (x < field.scrollLeft) field.scrollLeft = x - 24;
        if (x + width > field.scrollLeft + room) {
          field.scrollLeft = x + width + 24 - room;
        }
      }

      function show(to, playing) {
        position = Math.min(to, end);
        inspected = null;
        const at = marksAt(cycle, rule, course, position);
        drawing.paint(at.marks, at.kept, at.ended);
        order.forEach((node, place) => {
          const chip = chips[place];
          const step = course.steps[place];
          const done = place < position;
          if (!done) chip.className = "";
          else chip.className = step.accepted ? "kept" : "rejected";
          const current = !at.ended && at.now?.node === node;
          chip.classList.toggle("current", current);
        });
        const ended = at.ended ? closing(cycle, rule, course.node, ran) : "";
        said.textContent = at.ended
          ? ended
          : at.now
            ? telling(cycle, rule, at.now)
            : opening(cycle, rule, order[0]);
        count.textContent = at.ended
          ? `all ${end - 1}`
          : `${position} of ${end - 1}`;
        for (const button of buttons) {
          const name = button.dataset.act;
          if (name === "play") button.textContent = playing ? "Pause" : "Play";
          else if (name === "start" || name === "back") {
            button.setAttribute("aria-disabled", position === 0);
          } else button.setAttribute("aria-disabled", at.ended);
        }
        about.setAttribute("aria-live", "off"); // `said` is enough
        const bonus = cycle.parents.length;
        follow(at.ended ? bonus : (at.now?.node ?? order[0] ?? ROOT));
        describe();
      }

      /** Looks at the next node, or the one before. */
      function look(by) {
        const count = cycle.parents.length;
        let node = inspected ?? course.steps[position - 1]?.node ?? ROOT;
        do node = (node + by + count) % count;
        while (!drawing.place(node));
        about.setAttribute("aria-live", "polite");
        inspect(node);
        follow(node);
      }

      function point(event) {
        const own = event.target.closest(".node");
        const node = own ? Number(own.dataset.node) : NaN;
        if (node < cycle.parents.length) inspect(node);
      }

      drawing.svg.addEventListener("click", point);
      drawing.svg.addEventListener("pointerover", (event) => {
        if (event.pointerType === "mouse") point(event);
      });
      drawing.svg.addEventListener("pointerleave", (event) => {
        if (event.pointerType === "mouse") inspect(null);
      });

      return { root, end, show, look };
    }

    return { panel };
  })(),
);
