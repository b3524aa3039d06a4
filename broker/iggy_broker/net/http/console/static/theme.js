// Light, dark, or what the system says. theme_early.js applies the choice when a page is opened.

import { h } from "./dom.js";

const KEY = "iggykube.theme";
const CHOICES = ["system", "light", "dark"];

/** A button that goes through the choices. */
export function themeButton() {
  const stored = localStorage.getItem(KEY);
  let chosen = CHOICES.includes(stored) ? stored : CHOICES[0];
  const button = h("button", { type: "button", class: "quiet", onclick: next });
  label();
  return button;

  function next() {
    chosen = CHOICES[(CHOICES.indexOf(chosen) + 1) % CHOICES.length];
    localStorage.setItem(KEY, chosen);
    if (chosen === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    label();
  }

  function label() {
    button.textContent = `Theme: ${chosen}`;
  }
}
