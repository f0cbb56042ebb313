// Light, dark, or what the system has; kept in this browser.

const KEY = "broadmatch-theme";
export const THEMES = ["system", "light", "dark"];

export const theme = () => (THEMES.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : "system");

export function setTheme(name) {
  localStorage.setItem(KEY, name);
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  dispatchEvent(new CustomEvent("theme"));
}

export const nextTheme = () => setTheme(THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length]);
