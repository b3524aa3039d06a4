// Runs before the first paint, so that a chosen theme does not flash. See theme.js.
(() => {
  const chosen = localStorage.getItem("iggykube.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
