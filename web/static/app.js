// Small helpers for every page. No inline handlers anywhere: the content security policy forbids them.
"use strict";

// Copy buttons: data-copy names the element whose text is copied.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy).textContent;
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    // No permission: select it, so that the keyboard can copy it.
    getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
    button.textContent = "Press Ctrl+C";
  }
  setTimeout(() => (button.textContent = label), 1600);
});

// A part that asks for itself again and has not changed stays as it is, with what the reader has selected in it.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { target, serverResponse, requestConfig } = event.detail;
  if (requestConfig.elt !== target) return; // somebody has asked: the address changes too
  const fresh = new DOMParser().parseFromString(serverResponse, "text/html").getElementById(target.id);
  if (fresh && fresh.innerHTML === target.innerHTML) event.detail.shouldSwap = false;
});

// A list that asks for itself again after one has signed out would ask in vain for ever: the page leads to the form to sign in.
document.addEventListener("htmx:responseError", (event) => {
  if (event.detail.xhr.status === 401) location.reload();
});

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

// The submit form: a script that is dropped or chosen goes into the text area, where it can be read before it is sent. Folders and
// zip archives are for project.js, which listens for them first.
const form = document.querySelector("form#submit"); // a heading of the documentation may have the same id
if (form) {
  const drop = form.querySelector("[data-drop]");
  const source = form.elements.source;
  const picker = form.elements.script;

  const take = async (file) => {
    // Too large, or no text: the server says what is wrong with it, so it goes there as it is.
    if (file.size > Number(form.dataset.maxBytes)) return;
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      return;
    }
    source.value = text;
    source.dispatchEvent(new Event("input"));
    if (!form.elements.filename.readOnly) form.elements.filename.value = file.name;
    picker.value = "";
    source.focus();
    source.setSelectionRange(0, 0);
  };

  picker.addEventListener("change", (event) => picker.files.length && !event.projectTaken && take(picker.files[0]));
  let depth = 0;
  const mark = (on) => drop.classList.toggle("over", on);
  drop.addEventListener("dragenter", (event) => { event.preventDefault(); depth += 1; mark(true); });
  drop.addEventListener("dragover", (event) => event.preventDefault());
  drop.addEventListener("dragleave", () => { depth -= 1; mark(depth > 0); });
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    mark(false);
    const file = event.dataTransfer.files[0];
    if (!file || event.projectTaken) return;
    picker.files = event.dataTransfer.files;
    take(file);
  });

  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.addEventListener("submit", () => {
    const button = form.querySelector("button[type=submit]");
    button.setAttribute("aria-busy", "true");
    button.textContent = "Sending…";
  });
  // Coming back with the browser's "back" button must neither leave it busy nor lose what was typed: the page itself is not kept.
  const key = `form ${location.pathname}${location.search}`;
  const inputs = [...form.elements].filter((one) => one.name && one.type !== "file");
  addEventListener("pagehide", () => {
    const typed = inputs.map((one) => (one.type === "checkbox" ? one.checked : one.value));
    try {
      sessionStorage.setItem(key, JSON.stringify(typed));
    } catch {
      // too large for it: then it is not kept
    }
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) return location.reload();
    const kept = sessionStorage.getItem(key);
    sessionStorage.removeItem(key);
    const cameBack = ["back_forward", "reload"].includes(performance.getEntriesByType("navigation")[0]?.type);
    if (!cameBack || kept === null) return;
    const typed = JSON.parse(kept);
    if (typed.length !== inputs.length) return;
    inputs.forEach((one, place) => (one.type === "checkbox" ? (one.checked = typed[place]) : (one.value = typed[place])));
    source.dispatchEvent(new Event("input"));
  });
}
document.getElementById("refusal")?.focus();
