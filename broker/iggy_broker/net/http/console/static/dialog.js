// Dialogs that change something: a form, what the broker says to it, and for deleting the name.

import { ApiError } from "./api.js";
import { button, h, notice } from "./dom.js";

/**
 * Ask for the values of `fields` (see `control`) and do `run` with them; the dialog stays open and
 * shows the reason while that is refused. Resolves to whether it was done.
 */
export function ask({ title, text = null, fields = [], action, isDanger = false, typed = null, run }) {
  return new Promise((resolve) => {
    const controls = fields.map(control);
    const name = typed === null ? null : h("input", { autocomplete: "off", spellcheck: "false" });
    const said = notice("alert");
    const submit = h("button", { class: isDanger ? "danger" : "main", disabled: typed !== null }, action);
    const form = h(
      "form",
      {},
      h("h2", { id: "dialog-title" }, title),
      text === null ? null : h("p", {}, text),
      controls.map((one) => one.node),
      name === null
        ? null
        : h("label", {}, h("span", {}, "Type the name to confirm: ", h("code", {}, typed)), name),
      said,
      h("div", { class: "actions" }, button("Cancel", () => dialog.close()), submit),
    );
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
    let isDone = false;

    name?.addEventListener("input", () => {
      submit.disabled = name.value !== typeable(typed);
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      submit.disabled = true;
      said.textContent = "";
      try {
        await run(Object.fromEntries(controls.map((one) => [one.name, one.value()])));
        isDone = true;
        dialog.close();
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        said.textContent = error.message;
      } finally {
        submit.disabled = false;
      }
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(isDone);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Ask before something is deleted or emptied; its name must be typed. */
export function confirmDeleting({ what, name, text, action = "Delete", run }) {
  return ask({ title: `${action} ${what}?`, text, action, isDanger: true, typed: name, run });
}

/**
 * One field: {name, label, type, value, hint, ...attributes}. Types are those of inputs, and
 * "textarea", "select" (with `options`, a list of [value, text]) and "checkbox".
 */
export function control({ name, label, type = "text", value = "", hint = null, options, ...more }) {
  const input = inputOf({ type, value, options, more });
  const words = [h("span", {}, label), hint === null ? null : h("small", {}, hint)];
  const node = type === "checkbox" ? h("label", { class: "check" }, input, words) : h("label", {}, words, input);
  return { name, node, input, value: () => (type === "checkbox" ? input.checked : input.value) };
}

function inputOf({ type, value, options, more }) {
  if (type === "textarea") return h("textarea", { rows: 6, ...more }, value);
  if (type === "checkbox") return h("input", { type, checked: value === true, ...more });
  if (type !== "select") return h("input", { type, value, autocomplete: "off", ...more });
  const made = options.map(([one, text]) => h("option", { value: one, selected: one === value }, text));
  return h("select", more, made);
}

/** A name as an input holds it. */
function typeable(name) {
  return name.replace(/[\r\n]/g, "");
}
