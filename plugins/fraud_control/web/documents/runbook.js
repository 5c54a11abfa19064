// Makes a runbook part of the pages: the theme of Airflow, the way back, and a button that copies each command.
const theme = localStorage.getItem("theme");
const isDark = theme === "dark" || (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
document.documentElement.dataset.scheme = isDark ? "dark" : "light";

document.addEventListener("DOMContentLoaded", () => {
  const back = document.getElementById("back");
  if (history.length > 1 && document.referrer.startsWith(location.origin)) {
    back.addEventListener("click", (event) => {
      event.preventDefault();
      history.back();
    });
  }
  if (!isSecureContext) return; // browsers offer no clipboard without TLS, except on localhost
  for (const block of document.querySelectorAll("pre")) {
    const command = block.innerText.trim();
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(command);
      button.textContent = "Copied";
    });
    block.append(button);
  }
});
