// Small helpers for every page. No inline handlers anywhere: the content security policy forbids them.
"use strict";

// Copy buttons: data-copy names the element whose text is copied.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const copied = document.getElementById(button.dataset.copy);
  button.dataset.label ??= button.textContent; // it may say "Copied" from the last time
  try {
    await navigator.clipboard.writeText(copied.textContent);
    button.textContent = "Copied";
  } catch {
    // No permission: select it, so that the keyboard can copy it. What is folded away cannot be selected.
    const folded = copied.closest("details");
    if (folded) folded.open = true;
    getSelection().selectAllChildren(copied);
    button.textContent = "Press Ctrl+C";
  }
  setTimeout(() => (button.textContent = button.dataset.label), 1600);
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

document.getElementById("refusal")?.focus();
